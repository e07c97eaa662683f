"""A command whose output is read and whose input is sent."""

from __future__ import annotations

import base64
import json
import threading
import time
from typing import IO, Any, Callable, List, NamedTuple, Optional, cast

from .errors import CLOSED, INVALID_ANSWER, HostlerError
from .transport import Response, Transport, backoff, join
from .types import ClaimCommand, CommandInput, CommandResult

MAX_LINE = 16 << 20
# Three heartbeats of the server.
READ_TIMEOUT = 45.0
# Half of what the container keeps.
ACKNOWLEDGE = 512 << 10
MAX_INPUT = 256 << 10


class Chunk(NamedTuple):
    """A piece of output."""

    stream: str  # stdout or stderr
    data: bytes
    offset: int  # of its first byte, in the output of both streams

    @property
    def end(self) -> int:
        """The offset after its last byte: where another reader continues."""
        return self.offset + len(self.data)


class _Lines:
    """The lines of an answer."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self._ready: List[bytes] = []  # whole lines, the last one first
        self._rest: List[bytes] = []  # the beginning of the next one
        self._size = 0

    def next(self) -> bytes:
        """The next line; EOFError at the end."""
        while not self._ready:
            data = self.response.read1()
            if not data:
                raise EOFError("the output is cut off")
            first, *more = data.split(b"\n")
            self._rest.append(first)
            self._size += len(first)
            if self._size > MAX_LINE:
                raise HostlerError(200, INVALID_ANSWER, "a line of the output is too long")
            if more:
                lines = [b"".join(self._rest), *more[:-1]]
                self._rest, self._size = [more[-1]], len(more[-1])
                self._ready = lines[::-1]
        return self._ready.pop()


class Command:
    """A command of a claim. Iterate over it to read its output to the end; result is
    then how it ended. Lost connections are made again: no byte is lost or read twice.

    One thread reads, another one may send input, and any may call the rest. A chunk
    is acknowledged when the next one is asked for. A command that was started
    continues without its client; leaving its `with` block before its end ends it.
    """

    def __init__(
        self,
        transport: Transport,
        claim: str,
        id: str,
        offset: int = 0,
        received: int = 0,
        is_owner: bool = False,
        lost_timeout: float = 300.0,
    ) -> None:
        self.id = id
        self.result: Optional[CommandResult] = None
        self.offset = offset
        # Called with the error when a connection was lost, before the next one.
        self.on_lost: Optional[Callable[[HostlerError], None]] = None
        self._transport = transport
        self._path = join("/v1/claims", claim, "exec", id)
        self._acknowledged = offset
        self._received = received
        self._is_owner = is_owner
        self._is_known = is_owner  # to the server
        self._is_alive = False  # the last connection has made progress
        self._lost_timeout = lost_timeout
        self._lines: Optional[_Lines] = None
        self._lock = threading.Lock()  # guards _lines and _is_reading
        self._is_reading = False
        self._closed = threading.Event()

    def __repr__(self) -> str:
        return f"Command({self.id!r}, offset={self.offset})"

    def __iter__(self) -> "Command":
        return self

    def __next__(self) -> Chunk:
        with self._lock:
            self._is_reading = True
        try:
            return self._next()
        except BaseException:
            self._disconnect()  # a part of a line may be lost
            raise
        finally:
            with self._lock:
                self._is_reading = False
            if self._closed.is_set():
                self._disconnect()

    def _next(self) -> Chunk:
        failures, since, error = 0, 0.0, None
        while self.result is None:
            try:
                self._acknowledge()
                chunk = self._read()
                if chunk is not None:
                    return chunk
                if self._is_alive:
                    failures = 0
            except EOFError as err:
                error = self._transport.failure(err)
            except HostlerError as err:
                error = err
            if error is not None:
                failures, since = failures + 1, since if failures else time.monotonic()
                self._lost(error, failures, since)
                error = None
        raise StopIteration

    def _lost(self, err: HostlerError, failures: int, since: float) -> None:
        """Wait before another connection is made, or raise the error."""
        self._disconnect()
        if self._closed.is_set():
            raise HostlerError(0, CLOSED, "the command was closed") from err
        if not err.is_temporary or not self._is_known or time.monotonic() - since > self._lost_timeout:
            raise err
        if self.on_lost is not None:
            self.on_lost(err)
        self._closed.wait(backoff(failures))

    def _read(self) -> Optional[Chunk]:
        """Handle a line; return the output that it has."""
        text = self._connect().next()
        self._is_alive = True
        if not text:
            return None  # a heartbeat
        line = _object(text)
        self._is_alive = "start" not in line  # the first line alone is no progress
        if isinstance(line.get("error"), dict):
            raise _line_error(line["error"])
        if isinstance(line.get("end"), dict):
            self._end(line["end"])
            return None
        return self._output(line)

    def _connect(self) -> _Lines:
        if self._lines is None:
            response = self._transport.stream("GET", self._path + "/output", {"after": self.offset}, timeout=READ_TIMEOUT)
            with self._lock:
                self._lines = _Lines(response)
                self._is_known = True
        if self._closed.is_set():
            raise HostlerError(0, CLOSED, "the command was closed")
        return self._lines

    def _output(self, line: Any) -> Optional[Chunk]:
        try:
            data = base64.b64decode(line.get("data") or "", validate=True)
            offset = int(line.get("offset") or 0)
        except (ValueError, TypeError) as err:
            raise HostlerError(200, INVALID_ANSWER, "a line of the output is not as the server writes it") from err
        if not data:
            return None
        if offset > self.offset:
            raise HostlerError(200, INVALID_ANSWER, f"the output continues at {offset}, not at {self.offset}")
        data = data[self.offset - offset :]
        if not data:
            return None
        chunk = Chunk("stderr" if line.get("stream") == "stderr" else "stdout", data, self.offset)
        self.offset = chunk.end
        return chunk

    def _end(self, result: CommandResult) -> None:
        self.result = result
        self._disconnect()
        try:
            self._send_acknowledgement(self.offset)
        except HostlerError:
            pass  # it is forgotten later

    def _acknowledge(self) -> None:
        """Acknowledge much output, but for its last byte: the container forgets a
        command that has ended once all is acknowledged, and its result must arrive
        first."""
        if self.offset - self._acknowledged >= ACKNOWLEDGE:
            self._send_acknowledgement(self.offset - 1)
            self._acknowledged = self.offset

    def _send_acknowledgement(self, offset: int) -> None:
        self._transport.call("POST", self._path + "/ack", {"offset": offset})

    def wait(self, stdout: Optional[IO[bytes]] = None, stderr: Optional[IO[bytes]] = None) -> CommandResult:
        """Read the output to its end, write it to files, and return the result."""
        for chunk in self:
            file = stdout if chunk.stream == "stdout" else stderr
            if file is not None:
                file.write(chunk.data)
        return cast(CommandResult, self.result)

    def send(self, data: bytes) -> None:
        """Send input, and return when the command's container has received it. A
        command that does not read delays it."""
        rest = memoryview(data)
        failures, since = 0, time.monotonic()
        while rest:
            part = rest[:MAX_INPUT]
            got = self._try_input(bytes(part), False, failures, since)
            if got is None:
                failures += 1
                continue
            failures, since = 0, time.monotonic()
            n = got["received"] - self._received
            if n < 0 or n > len(part):
                raise HostlerError(200, INVALID_ANSWER, f"the command has received {got['received']} bytes of input, not {self._received + len(part)}")
            rest, self._received = rest[n:], got["received"]
            if got.get("closed") and rest:
                raise HostlerError(200, "input_closed", "the command receives no more input")

    def close_input(self) -> None:
        """End the input."""
        failures, since = 0, time.monotonic()
        while True:
            got = self._try_input(b"", True, failures, since)
            if got is None:
                failures += 1
            elif got.get("closed"):
                return
            else:
                failures, since = 0, time.monotonic()

    def _try_input(self, data: bytes, end: bool, failures: int, since: float) -> Optional[CommandInput]:
        """Send input; return None when that is to be repeated."""
        query = {"offset": self._received, "close": "true" if end else None}
        headers = {"Content-Type": "application/octet-stream"}
        try:
            return cast(CommandInput, self._transport.call("POST", self._path + "/input", None, query, data, headers)[1])
        except HostlerError as err:
            if not err.is_temporary or self._closed.is_set() or time.monotonic() - since > self._lost_timeout:
                raise
            self._closed.wait(backoff(failures + 1))
            return None

    def signal(self, name: str) -> None:
        """Send a signal such as SIGINT."""
        self._transport.call("POST", self._path + "/signal", {"signal": name}, retry=False)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal."""
        self._transport.call("POST", self._path + "/resize", {"rows": rows, "columns": columns})

    def status(self) -> ClaimCommand:
        """Its description."""
        return cast(ClaimCommand, self._transport.call("GET", self._path)[1])

    def kill(self) -> None:
        """End it: SIGTERM, then SIGKILL. No process of it is left on return."""
        self._transport.call("DELETE", self._path, timeout=max(self._transport.timeout, 120.0))

    def close(self) -> None:
        """Stop reading, also in another thread. The command continues."""
        self._closed.set()
        with self._lock:
            if self._is_reading and self._lines is not None:
                self._lines.response.interrupt()
            is_reading = self._is_reading
        if not is_reading:
            self._disconnect()

    def _disconnect(self) -> None:
        with self._lock:
            lines, self._lines = self._lines, None
        if lines is not None:
            lines.response.close()

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        if self._is_owner and self.result is None:
            try:
                self.kill()
            except HostlerError as err:
                if err.status not in (404, 409):  # it has ended, or its claim has
                    raise


def _object(text: bytes) -> Any:
    try:
        line = json.loads(text)
    except ValueError:
        line = None
    if not isinstance(line, dict):
        raise HostlerError(200, INVALID_ANSWER, "a line of the output is not as the server writes it")
    return line


def _line_error(problem: Any) -> HostlerError:
    status = problem.get("status")
    return HostlerError(status if isinstance(status, int) else 500, str(problem.get("code", "")), str(problem.get("detail", "")), None, problem)
