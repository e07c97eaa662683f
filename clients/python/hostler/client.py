"""A client of one server, and a claim."""

from __future__ import annotations

import logging
import os
import secrets
import ssl
import threading
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, cast

from . import types
from .command import Command
from .errors import HostlerError
from .files import Files
from .ports import Port
from .transport import Transport, backoff, duration, join

DEFAULT_SERVER = "http://127.0.0.1:8700"
# Hooks run during a claim and a release, and a release uploads the tenant's state.
HOOKS_TIMEOUT = 900.0
POOL_WAIT = 120.0
COMMAND_TIMEOUT = 300.0
POLL = 30.0
MAX_POLL_FAILURES = 20
OPEN_WAITS = ("starting", "waiting", "signalling", "timing_out")

log = logging.getLogger("hostler")


class Client:
    """A client of one server. Many threads may use it at once.

    Without arguments it uses the environment as the command line does: HOSTLER_SERVER,
    and HOSTLER_API_KEY or the file HOSTLER_API_KEY_FILE. timeout, in seconds, is that
    of each step of a request. The key is sent to this server only: no redirect is
    followed, and no proxy is used.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        api_key: Optional[str] = None,
        timeout: float = 60.0,
        context: Optional[ssl.SSLContext] = None,
    ) -> None:
        if url is None:
            url = os.environ.get("HOSTLER_SERVER") or DEFAULT_SERVER
        if api_key is None:
            api_key = _key_of_environment()
        self.transport = Transport(url, api_key, timeout, context)

    def __repr__(self) -> str:
        return f"Client({self.transport.address!r})"

    def claim(
        self,
        workload: str,
        tenant: str,
        wait: Optional[float] = None,
        touch_every: float = 30.0,
        *,
        labels: Optional[Mapping[str, str]] = None,
        parameters: Optional[Mapping[str, str]] = None,
        environment: Optional[Mapping[str, str]] = None,
        expires_in: Optional[float] = None,
        request_id: str = "",
    ) -> "Claim":
        """A container for a tenant, when it is ready. If the tenant holds one already,
        this is it, with created False. A call that is repeated with the request_id of
        the one that created it has created True. wait is how long to wait for a container when
        none is free, and expires_in how long the claim lasts, in seconds. With wait 0
        it is not waited for; None is the server's default, up to 2 minutes for a
        container that is being created."""
        body: Dict[str, Any] = {"workload": workload, "tenant": tenant, "request_id": request_id or secrets.token_hex(16)}
        if wait is not None:
            body["wait"] = duration(wait)
        given = {"labels": labels, "parameters": parameters, "environment": environment}
        body.update({name: dict(values) for name, values in given.items() if values})
        if expires_in is not None:
            body["expires_in"] = duration(expires_in)
        timeout = HOOKS_TIMEOUT + (POOL_WAIT if wait is None else wait)
        status, got = self.transport.call("POST", "/v1/claims", body, timeout=timeout)
        return Claim(self.transport, cast(types.Claim, got), status == 201, touch_every)

    def get_claim(self, id: str, touch_every: float = 30.0) -> "Claim":
        """A claim that exists."""
        got = self.transport.call("GET", join("/v1/claims", id))[1]
        return Claim(self.transport, cast(types.Claim, got), False, touch_every)

    def close(self) -> None:
        """End every request. Claims remain."""
        self.transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _key_of_environment() -> str:
    name = os.environ.get("HOSTLER_API_KEY_FILE")
    if not name:
        return os.environ.get("HOSTLER_API_KEY", "")
    with open(name, encoding="utf-8") as file:
        return file.read().strip()


class Claim:
    """A tenant's container. In a `with` block it is touched in the background. At the
    end it is released if it was created by this call: one that the tenant held before
    may be in use by another program."""

    def __init__(self, transport: Transport, info: types.Claim, created: bool, touch_every: float) -> None:
        self.id = info["id"]
        self.info = info
        self.created = created
        self.files = Files(transport, self.id)
        self._transport = transport
        self._path = join("/v1/claims", self.id)
        self._touch_every = touch_every
        self._stop = threading.Event()
        self._toucher: Optional[threading.Thread] = None

    def __repr__(self) -> str:
        return f"Claim({self.id!r}, workload={self.info['workload']!r}, tenant={self.info['tenant']!r})"

    def refresh(self) -> types.Claim:
        """The claim as it is; info is this then."""
        self.info = cast(types.Claim, self._transport.call("GET", self._path)[1])
        return self.info

    def touch(self) -> types.Claim:
        """Record that it is in use, for pools with a claim_idle_ttl."""
        self.info = cast(types.Claim, self._transport.call("POST", self._path + "/touch")[1])
        return self.info

    def extend(self, by: float) -> types.Claim:
        """Move the end of its lifetime by this number of seconds. Each call moves it
        again, so it is not repeated when the connection breaks."""
        self.info = cast(types.Claim, self._transport.call("POST", self._path + "/extend", {"by": duration(by)}, retry=False)[1])
        return self.info

    def release(self, discard: bool = False) -> types.Claim:
        """End it. If the tenant's state cannot be kept, this is an error with code
        sync_failed, and can be called again; with discard the state is given up."""
        self.stop_touching()
        body = {"discard": discard}
        self.info = cast(types.Claim, self._transport.call("POST", self._path + "/release", body, timeout=HOOKS_TIMEOUT)[1])
        return self.info

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: str = "",
        timeout: Optional[float] = None,
        user: str = "",
        workdir: str = "",
        environment: Optional[Mapping[str, str]] = None,
    ) -> types.CompletedCommand:
        """Run a command to its end, and return the beginning and the end of its output.
        It is ended after 5 minutes or the timeout, and when the connection breaks."""
        body = _command_body(command, timeout, user, workdir, environment)
        if stdin:
            body["stdin"] = stdin
        limit = (COMMAND_TIMEOUT if timeout is None else timeout) + self._transport.timeout
        return cast(types.CompletedCommand, self._transport.call("POST", self._path + "/exec", body, timeout=limit, retry=False)[1])

    def start(
        self,
        command: Sequence[str],
        *,
        input: bool = False,
        terminal: Optional[Tuple[int, int]] = None,
        timeout: Optional[float] = None,
        user: str = "",
        workdir: str = "",
        environment: Optional[Mapping[str, str]] = None,
        id: str = "",
        lost_timeout: float = 300.0,
    ) -> Command:
        """Start a command. Iterate over what this returns to read its output; with
        input, send it input. It continues until it ends, or with the claim, whatever
        becomes of this program. With the id of one that runs this is that one, which the
        end of a block leaves running. terminal is rows and columns."""
        body = _command_body(command, timeout, user, workdir, environment)
        # With an id, a repeated request starts no second one.
        body.update(detach=True, id=id or secrets.token_hex(16))
        if input:
            body["input"] = True
        if terminal is not None:
            body["terminal"] = {"rows": terminal[0], "columns": terminal[1]}
        status, got = self._transport.call("POST", self._path + "/exec", body)
        # One that ran already is another program's, unless nobody else knows its id.
        return Command(self._transport, self.id, got["id"], is_owner=not id or status == 201, lost_timeout=lost_timeout)

    def attach(self, id: str, after: int = 0, lost_timeout: float = 300.0) -> Command:
        """A command that was started before. Its output is read from the offset after
        on; what is before it is given up."""
        path = self._path + join("/exec", id) + "/input"
        headers = {"Content-Type": "application/octet-stream"}
        got = self._transport.call("POST", path, query={"offset": 0}, content=b"", headers=headers)[1]
        return Command(self._transport, self.id, id, after, got["received"], False, lost_timeout)

    def commands(self) -> List[types.ClaimCommand]:
        """The commands that run, and those that ended a short time ago."""
        return cast(types.ClaimCommands, self._transport.call("GET", self._path + "/exec")[1])["items"]

    def port(self, number: int) -> Port:
        """A port of the container."""
        return Port(self._transport, self.id, number)

    def wait(
        self,
        type: str,
        timeout: float,
        *,
        name: str = "",
        on_timeout: str = "",
        context: Any = None,
        request_id: str = "",
    ) -> types.Wait:
        """Wait for a signal, and return the wait when it has ended: with the data of
        the signal if its state is signalled. It returns to the same wait after a lost
        connection, or a restart of the server."""
        body = {"request_id": request_id or secrets.token_hex(16), "name": name, "type": type, "timeout": duration(timeout), "on_timeout": on_timeout}
        body = {k: v for k, v in body.items() if v}
        if context is not None:
            body["context"] = context
        wait = cast(types.Wait, self._persist("POST", self._path + "/waits", body))
        while wait["state"] in OPEN_WAITS:
            path = join("/v1/waits", wait["id"])
            wait = cast(types.Wait, self._persist("GET", path, query={"wait": duration(POLL)}, timeout=POLL + self._transport.timeout))
        return wait

    def _persist(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Repeat a request while the server is unavailable."""
        failures = 0
        while True:
            try:
                return self._transport.call(method, path, body, **options)[1]
            except HostlerError as err:
                failures += 1
                if not err.is_temporary or failures >= MAX_POLL_FAILURES:
                    raise
            time.sleep(backoff(failures))

    def signal(self, name: str, data: Any = None) -> types.SignalResult:
        """Send data to the open wait of a name, or to the next one. It is not repeated
        when the connection breaks: the next wait would get it a second time."""
        body = {"name": name, "data": data}
        return cast(types.SignalResult, self._transport.call("POST", self._path + "/signals", body, retry=False)[1])

    def start_touching(self) -> None:
        """Touch it in the background until it ends."""
        if self._toucher is None:
            self._toucher = threading.Thread(target=self._touch_all, name="hostler-touch", daemon=True)
            self._toucher.start()

    def stop_touching(self) -> None:
        """End start_touching."""
        self._stop.set()

    def _touch_all(self) -> None:
        while not self._stop.wait(self._touch_every):
            try:
                self.touch()
            except HostlerError as err:
                if 400 <= err.status < 500:
                    return  # it has ended: the next call shows why

    def __enter__(self) -> "Claim":
        self.start_touching()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if not self.created:
            self.stop_touching()
            return
        try:
            self.release()
        except HostlerError as err:
            if kind is None:
                raise
            log.warning("the release of claim %s failed: %s", self.id, err)


def _command_body(
    command: Sequence[str], timeout: Optional[float], user: str, workdir: str, environment: Optional[Mapping[str, str]]
) -> Dict[str, Any]:
    if isinstance(command, (str, bytes)):
        raise TypeError("a command is a list of its program and arguments")
    body: Dict[str, Any] = {"command": list(command)}
    if timeout is not None:
        body["timeout"] = duration(timeout)
    for name, value in (("user", user), ("workdir", workdir), ("environment", dict(environment or {}))):
        if value:
            body[name] = value
    return body
