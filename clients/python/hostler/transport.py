"""Requests to a server, each on a connection of its own."""

from __future__ import annotations

import http.client
import json
import random
import socket
import ssl
import threading
import time
from typing import IO, Any, Dict, Iterable, Iterator, Mapping, Optional, Set, Tuple, Union
from urllib.parse import quote, urlencode, urlsplit

from .errors import CLIENT_TIMEOUT, CLOSED, INVALID_ANSWER, NO_ANSWER, HostlerError

ATTEMPTS = 3
MAX_JSON = 64 << 20
MAX_PROBLEM = 1 << 20
BLOCK = 64 << 10

Content = Union[bytes, bytearray, memoryview, IO[bytes], Iterable[bytes]]
Query = Mapping[str, Union[str, int, None]]


def backoff(attempt: int) -> float:
    """Seconds to wait after a number of failures in a row."""
    return min(0.1 * 2 ** min(attempt, 6), 5.0) * random.uniform(0.8, 1.2)


def duration(seconds: float) -> str:
    """A duration as the server reads it."""
    return f"{seconds:.3f}s"


def join(begin: str, *parts: object) -> str:
    """A path of parts that are not paths. Programs on the way to the server may
    resolve . and .. in it, so that another one would be requested."""
    for part in map(str, parts):
        if part in ("", ".", ".."):
            raise ValueError(f"{part!r} is not a name")
    return begin + "".join("/" + quote(str(p), safe="") for p in parts)


class _Connection:
    """A connection that is in use. Another thread may call interrupt."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.is_interrupted = False

    def interrupt(self) -> None:
        """End it: a call in another thread fails."""
        self.is_interrupted = True
        shut(self.sock, socket.SHUT_RDWR)


def shut(sock: socket.socket, how: int) -> None:
    """Shut a socket down, which may have ended."""
    try:
        # Not of ssl.SSLSocket, which would take the state from its reader.
        socket.socket.shutdown(sock, how)
    except OSError:
        pass


class Response:
    """An answer whose body is read in parts. Another thread may call interrupt."""

    def __init__(self, transport: "Transport", connection: _Connection, raw: http.client.HTTPResponse) -> None:
        self._transport = transport
        self._connection = connection
        self._raw = raw
        self.status = raw.status
        self.headers = raw.headers

    def read1(self, limit: int = BLOCK) -> bytes:
        """Some bytes of the body, none at its end. A body that is cut off is an
        error."""
        try:
            # read1 of an answer with a length does not count.
            data = self._raw.read1(limit) if self._raw.chunked else self._raw.read(min(limit, self._raw.length or 0))
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as err:
            # The last two: the connection was closed by another thread.
            raise self._transport.failure(err, self._connection) from err
        if not data and not self._is_complete():
            raise self._transport.failure(EOFError("the answer is cut off"), self._connection)
        return data

    def _is_complete(self) -> bool:
        # Where an answer has no length, its end and a broken connection look the
        # same.
        return bool(self._raw.chunked) or self._raw.length == 0 or self.status == 204

    def read(self, limit: int) -> bytes:
        """The whole body, of at most limit bytes."""
        parts, size = [], 0
        while True:
            data = self.read1()
            if not data:
                return b"".join(parts)
            parts.append(data)
            size += len(data)
            if size > limit:
                raise HostlerError(self.status, INVALID_ANSWER, f"the answer has more than {limit} bytes")

    def json(self) -> Any:
        """The body as JSON; None of an answer without a body."""
        if self.status == 204:
            return None
        text = self.read(MAX_JSON)
        try:
            return json.loads(text)
        except ValueError as err:
            raise HostlerError(self.status, INVALID_ANSWER, "the answer is not JSON") from err

    def interrupt(self) -> None:
        """End the connection: a read in another thread fails."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self._transport.forget(self._connection)
        # A body that was not read to its end may never end.
        self.interrupt()
        self._raw.close()
        self._connection.sock.close()

    def __enter__(self) -> "Response":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Upload:
    """Blocks of content. It keeps the error of its source apart from those of the
    connection."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self.error: Optional[BaseException] = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            read = getattr(self._content, "read", None)
            if read is None:
                yield from self._content  # type: ignore[misc]
                return
            while True:
                block = read(BLOCK)
                if not block:
                    return
                yield block
        except GeneratorExit:
            raise
        except BaseException as err:
            self.error = err
            raise


class Transport:
    """Makes requests to one server. Many threads may use it at once."""

    def __init__(self, url: str, key: str, timeout: float, context: Optional[ssl.SSLContext]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the server's address is written like http://127.0.0.1:8700")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise ValueError("the server's address has neither a user nor a query")
        if not all(32 < ord(c) < 127 for c in key):
            raise ValueError("the API key has characters that no key has")
        self.timeout = timeout
        self.host = parts.hostname
        self.port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        self.address = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self.prefix = parts.path.rstrip("/")
        self.tls: Optional[ssl.SSLContext] = None
        if parts.scheme == "https":
            self.tls = context or ssl.create_default_context()
        self._key = key
        self._lock = threading.Lock()
        self._open: Set[_Connection] = set()  # guarded by _lock
        self._closed = False  # guarded by _lock

    def __repr__(self) -> str:
        return f"Transport({self.address!r})"

    def authorization(self) -> Dict[str, str]:
        """The header with the key."""
        return {"Authorization": "Bearer " + self._key} if self._key else {}

    def connection(self, timeout: float) -> http.client.HTTPConnection:
        """A connection that is not yet made. It follows no redirect."""
        if self.tls is not None:
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self.tls, blocksize=BLOCK)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout, blocksize=BLOCK)

    def failure(self, err: BaseException, connection: Optional[_Connection] = None) -> HostlerError:
        """The error of a request without a whole answer."""
        if connection is not None and connection.is_interrupted:
            return HostlerError(0, CLOSED, "it was closed")
        code = CLIENT_TIMEOUT if isinstance(err, socket.timeout) else NO_ANSWER
        return HostlerError(0, code, f"no answer from the server at {self.address}: {str(err) or type(err).__name__}")

    def stream(
        self,
        method: str,
        path: str,
        query: Optional[Query] = None,
        content: Optional[Content] = None,
        headers: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
    ) -> Response:
        """Make a request once, and return its answer, which is not an error."""
        conn = self.connection(self.timeout if timeout is None else timeout)
        sent = {"Connection": "close", "Accept-Encoding": "identity", **self.authorization(), **(headers or {})}
        is_bytes = content is None or isinstance(content, (bytes, bytearray, memoryview))
        upload = None if is_bytes else _Upload(content)  # type: ignore[arg-type]
        used: Optional[_Connection] = None
        response: Optional[Response] = None
        try:
            conn.connect()
            used = self._use(conn.sock)
            try:
                body = content if upload is None else iter(upload)
                conn.request(method, self.prefix + path + _query(query), body, sent)
            except (BrokenPipeError, ConnectionResetError):
                # A server may answer before it has read all.
                if upload is not None and upload.error is not None:
                    raise
            response = Response(self, used, conn.getresponse())
        except (OSError, http.client.HTTPException) as err:
            if upload is not None and upload.error is not None:
                raise
            raise self.failure(err, used) from err
        finally:
            if response is None:
                conn.close()
                self.forget(used)
        if not 200 <= response.status < 300:
            with response:
                raise problem_of(response.status, response.headers, _problem_text(response))
        return response

    def _use(self, sock: socket.socket) -> _Connection:
        used = _Connection(sock)
        with self._lock:
            if self._closed:
                raise HostlerError(0, CLOSED, "the client is closed")
            self._open.add(used)
        return used

    def forget(self, connection: Optional[_Connection]) -> None:
        """Called for a connection that is closed."""
        with self._lock:
            self._open -= {connection}

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Optional[Query] = None,
        content: Optional[Content] = None,
        headers: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        retry: bool = True,
    ) -> Tuple[int, Any]:
        """Make a request and return the status and the JSON of its answer. It is made
        again when the connection breaks, unless a second one could do something
        else."""
        sent = dict(headers or {})
        if body is not None:
            content = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        attempt = 1
        while True:
            try:
                with self.stream(method, path, query, content, sent, timeout) as response:
                    return response.status, response.json()
            except HostlerError as err:
                if err.code != NO_ANSWER or not retry or attempt >= ATTEMPTS:
                    raise
            time.sleep(backoff(attempt))
            attempt += 1

    def close(self) -> None:
        """End every request, and let none begin."""
        with self._lock:
            self._closed = True
            used = list(self._open)
        for connection in used:
            connection.interrupt()


def _query(query: Optional[Query]) -> str:
    given = {k: v for k, v in (query or {}).items() if v is not None}
    return "?" + urlencode(given) if given else ""


def _problem_text(response: Response) -> bytes:
    try:
        return response.read(MAX_PROBLEM)
    except HostlerError:
        return b""  # the status is known


def problem_of(status: int, headers: Mapping[str, str], text: bytes) -> HostlerError:
    """The error of an answer, also of one of a proxy."""
    try:
        retry_after: Optional[float] = max(float(int(headers.get("Retry-After", ""))), 0.0)
    except ValueError:
        retry_after = None
    try:
        problem = json.loads(text)
    except ValueError:
        problem = None
    if isinstance(problem, dict) and isinstance(problem.get("code"), str) and problem["code"]:
        return HostlerError(status, problem["code"], str(problem.get("detail", "")), retry_after, problem)
    return HostlerError(status, "", f"the server answered with status {status}, and not as Hostler does", retry_after)
