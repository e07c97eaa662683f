"""The answers of the server, by the names that they have in /openapi.json.

The tests compare them with the document of a server. A base class has the fields
that are always there.
"""

from __future__ import annotations

from typing import Any, Dict, List, TypedDict


class Endpoint(TypedDict):
    host: str
    ports: List[int]


class _HookSummary(TypedDict):
    run: str
    point: str
    hook: str
    attempt: int
    state: str
    duration_ms: float


class HookSummary(_HookSummary, total=False):
    """An attempt of a hook."""

    exit_code: int


class _Claim(TypedDict):
    id: str
    workload: str
    tenant: str
    state: str
    endpoint: Endpoint
    hooks: List[HookSummary]
    timings: Dict[str, float]
    warnings: List[str]
    created_at: str


class Claim(_Claim, total=False):
    """A tenant's hold on a container. Times are texts of RFC 3339."""

    actor: str
    container: str
    revision: str
    source: str
    health: str
    reason: str
    reason_chain: List[str]
    snapshot: str
    synced_at: str
    failures: int
    failure_reason: str
    failed_at: str
    retry_at: str
    waits: int
    discard: bool
    active_at: str
    touched_at: str
    activity: str
    activity_tool: str
    activity_at: str
    idle_expires_at: str
    expires_at: str
    labels: Dict[str, str]
    parameters: Dict[str, str]
    released_at: str


class _Output(TypedDict):
    total: int


class Output(_Output, total=False):
    """The beginning and the end of an output, and its size in bytes."""

    head: str
    tail: str
    truncated: bool


class TerminalSize(TypedDict):
    rows: int
    columns: int


class _CommandResult(TypedDict):
    exit_code: int
    duration_ms: float


class CommandResult(_CommandResult, total=False):
    """How a command ended. exit_code is its own, or 128 and the signal's number."""

    signal: str
    timed_out: bool
    killed: bool
    leaked_processes: int
    oom_killed: bool


class _CompletedCommand(_CommandResult):
    id: str


class CompletedCommand(_CompletedCommand, total=False):
    """A command that was waited for. An output that is empty is missing."""

    signal: str
    timed_out: bool
    killed: bool
    leaked_processes: int
    oom_killed: bool
    stdout: Output
    stderr: Output


class _ClaimCommand(TypedDict):
    id: str
    command: List[str]
    started_at: str
    output_bytes: int


class ClaimCommand(_ClaimCommand, total=False):
    """A command of a claim. held: it waits, because its output is not acknowledged."""

    terminal: bool
    attached: bool
    held: bool
    ended_at: str
    result: CommandResult


class ClaimCommands(TypedDict):
    items: List[ClaimCommand]


class _CommandInput(TypedDict):
    received: int


class CommandInput(_CommandInput, total=False):
    """How much input a command has received."""

    closed: bool


class _CommandStart(TypedDict):
    id: str
    offset: int
    input_received: int


class CommandStart(_CommandStart, total=False):
    input_closed: bool
    created: bool
    terminal: bool


class _Problem(TypedDict):
    type: str
    title: str
    status: int
    code: str
    detail: str
    instance: str


class Problem(_Problem, total=False):
    """An answer that is an error."""

    reason: str
    claim: str
    dropped: int
    quota: str
    limit: int
    current: int
    step: str
    current_version: int
    run: Dict[str, Any]
    errors: List[Dict[str, Any]]


class CommandLine(TypedDict, total=False):
    """A line of the output of a command."""

    start: CommandStart
    offset: int
    stream: str
    data: str
    end: CommandResult
    error: Problem


class _FileInfo(TypedDict):
    name: str
    type: str
    size: int
    mode: int
    modified: str
    uid: int
    gid: int


class FileInfo(_FileInfo, total=False):
    """A file of a container. All of it is from the tenant, and not to be trusted."""

    target: str


class FilePage(TypedDict):
    items: List[FileInfo]
    next: str


class _Wait(TypedDict):
    id: str
    claim: str
    workload: str
    container: str
    tenant: str
    type: str
    state: str
    round: int
    timeout_ms: int
    created_at: str


class Wait(_Wait, total=False):
    """A wait for a signal. data is that of the signal."""

    request_id: str
    name: str
    on_timeout: str
    context: Any
    data: Any
    decision: str
    reason: str
    extended: bool
    retried: bool
    started_at: str
    deadline: str
    fired_at: str
    ended_at: str


class SignalResult(TypedDict, total=False):
    wait: str
    kept: int


class Link(TypedDict):
    """A link to a port. Who has it can use the port."""

    url: str
    expires_at: str
