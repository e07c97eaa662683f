"""Ports of a claim's container."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from typing import Any, Optional, Set, Tuple, cast

from .errors import HostlerError
from .transport import BLOCK, MAX_PROBLEM, Transport, duration, join, problem_of, shut
from .types import Link

MAX_CONNECTIONS = 64
# How long a forwarded connection over TLS remains after its client has ended what it
# sends: TLS here has no way to end one direction.
TLS_HALF_CLOSED = 60.0


class _Unbuffered(http.client.HTTPResponse):
    """An answer after which the connection is read by others."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self.fp = sock.makefile("rb", buffering=0)  # type: ignore[assignment]


class Port:
    """A TCP port of a claim's container, also one that listens on its loopback
    address only."""

    def __init__(self, transport: Transport, claim: str, number: int) -> None:
        self.number = number
        self.transport = transport
        self.path = join("/v1/claims", claim, "ports", number)

    def dial(self, timeout: Optional[float] = None) -> socket.socket:
        """A connection to the port through the server. timeout is that of the socket;
        that of the client bounds this call. A program that does not listen is an error
        with code port_refused."""
        conn = self.transport.connection(self.transport.timeout)
        conn.response_class = _Unbuffered
        try:
            headers = {"Connection": "Upgrade", "Upgrade": "tcp", **self.transport.authorization()}
            conn.request("POST", self.transport.prefix + self.path, headers=headers)
            sock = conn.sock
            response = conn.getresponse()
            if response.status != 101:
                raise problem_of(response.status, response.headers, response.read(MAX_PROBLEM))
            conn.sock = None  # it is the caller's
            response.close()
        except (OSError, http.client.HTTPException) as err:
            raise self.transport.failure(err) from err
        finally:
            conn.close()
        sock.settimeout(timeout)
        return cast(socket.socket, sock)

    def http(self, timeout: Optional[float] = None) -> "PortConnection":
        """An http.client connection to the program that listens on the port."""
        return PortConnection(self, self.transport.timeout if timeout is None else timeout)

    def forward(self, host: str = "127.0.0.1", port: int = 0) -> "Forward":
        """Listen on a local address, and connect those who connect to it with the
        port, until the end of the `with` block. Every program of this machine can
        connect."""
        return Forward(self, host, port)

    def link(self, expires_in: Optional[float] = None) -> Link:
        """A link for a browser. Who has it can use the port."""
        body = {} if expires_in is None else {"expires_in": duration(expires_in)}
        return cast(Link, self.transport.call("POST", self.path + "/links", body)[1])


class PortConnection(http.client.HTTPConnection):
    """A connection to a program in a container."""

    def __init__(self, port: Port, timeout: float) -> None:
        super().__init__("localhost", port.number, timeout=timeout)
        self._dialed = port

    def connect(self) -> None:
        """Open the connection."""
        self.sock = self._dialed.dial(self.timeout)

    def __enter__(self) -> "PortConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Forward:
    """A local address that leads to a port. `with` returns (host, port)."""

    def __init__(self, port: Port, host: str, local: int) -> None:
        self._port = port
        self._address = (host, local)
        self._lock = threading.Lock()
        self._open: Set[socket.socket] = set()  # guarded by _lock
        self._closed = False  # guarded by _lock
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._threads: Set[threading.Thread] = set()  # guarded by _lock
        self._listener: Optional[socket.socket] = None
        self._accepting: Optional[threading.Thread] = None

    def __enter__(self) -> Tuple[str, int]:
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        self._listener = socket.create_server(self._address, family=family)
        self._accepting = threading.Thread(target=self._accept, name="hostler-forward", daemon=True)
        self._accepting.start()
        host, port = self._listener.getsockname()[:2]
        return host, port

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            sockets, threads = list(self._open), list(self._threads)
        if self._listener is not None:
            self._wake(self._listener)
        for sock in sockets:
            shut(sock, socket.SHUT_RDWR)
        for thread in [self._accepting, *threads]:
            if thread is not None:
                thread.join(self._port.transport.timeout)
        if self._listener is not None:
            self._listener.close()

    def _wake(self, listener: socket.socket) -> None:
        """End _accept: not on each system a closed listener does that."""
        try:
            socket.create_connection(listener.getsockname()[:2], 1.0).close()
        except OSError:
            pass
        shut(listener, socket.SHUT_RDWR)

    def _accept(self) -> None:
        listener = cast(socket.socket, self._listener)
        while True:
            self._places.acquire()
            local = None
            try:
                local, _ = listener.accept()
            except OSError:
                pass  # such as a client that left at once
            with self._lock:
                closed = self._closed
            if closed:
                if local is not None:
                    local.close()
                return
            if local is None:
                self._places.release()
                time.sleep(0.05)  # descriptors may be used up
                continue
            thread = threading.Thread(target=self._serve, args=(local,), name="hostler-forward", daemon=True)
            with self._lock:
                self._threads.add(thread)
            thread.start()

    def _serve(self, local: socket.socket) -> None:
        try:
            with local:
                try:
                    remote = self._port.dial()
                except HostlerError:
                    return  # its client sees a closed connection
                with remote:
                    if self._keep(local, remote):
                        self._splice(local, remote)
        finally:
            with self._lock:
                self._open -= {local}
                self._threads.discard(threading.current_thread())
            self._places.release()

    def _keep(self, *sockets: socket.socket) -> bool:
        with self._lock:
            if not self._closed:
                self._open.update(sockets)
            return not self._closed

    def _splice(self, local: socket.socket, remote: socket.socket) -> None:
        up = threading.Thread(target=_copy, args=(local, remote), daemon=True)
        up.start()
        _copy(remote, local)
        shut(local, socket.SHUT_RD)
        up.join()
        with self._lock:
            self._open -= {remote}


def _copy(source: socket.socket, to: socket.socket) -> None:
    """Copy until the source ends, and end the other one's input then."""
    try:
        while True:
            data = source.recv(BLOCK)
            if not data:
                break
            to.sendall(data)
    except (OSError, ValueError):
        shut(source, socket.SHUT_RDWR)
        shut(to, socket.SHUT_RDWR)
        return
    if isinstance(to, ssl.SSLSocket):
        to.settimeout(TLS_HALF_CLOSED)
    else:
        shut(to, socket.SHUT_WR)
