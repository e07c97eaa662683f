"""The client for asyncio. It runs the blocking one in threads of its own."""

from __future__ import annotations

import asyncio
import functools
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import IO, Any, AsyncIterator, Callable, Generator, List, Optional, Sequence, Set, Tuple, TypeVar

from . import types
from .client import Claim, Client
from .command import Chunk, Command
from .errors import HostlerError
from .files import File
from .ports import Port
from .transport import MAX_PROBLEM, Content, problem_of

T = TypeVar("T")

# A stream holds a thread while it waits for its next part.
MAX_THREADS = 128
MAX_HEAD = 64 << 10


class _Threads:
    """Runs blocking calls."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="hostler")
        # Claims that no one waits for any more; used in the loop's thread only.
        self.abandoned: "Set[Future[None]]" = set()

    def submit(self, call: Callable[..., T], *args: Any, **options: Any) -> "Future[T]":
        return self._pool.submit(call, *args, **options)

    async def run(self, call: Callable[..., T], *args: Any, **options: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, functools.partial(call, *args, **options))

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)


class AsyncClient:
    """As Client."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.client = Client(*args, **options)
        self._threads = _Threads()

    def __repr__(self) -> str:
        return f"Async{self.client!r}"

    def claim(
        self, workload: str, tenant: str, wait: Optional[float] = None, touch_every: float = 30.0, **options: Any
    ) -> "_Claiming":
        """As Client.claim, to be awaited or for `async with`."""
        return _Claiming(self._threads, functools.partial(self.client.claim, workload, tenant, wait, touch_every, **options))

    def get_claim(self, id: str, touch_every: float = 30.0) -> "_Claiming":
        """As Client.get_claim, to be awaited or for `async with`."""
        return _Claiming(self._threads, functools.partial(self.client.get_claim, id, touch_every))

    async def close(self) -> None:
        """End every request and the threads, but wait for the release of claims that
        were cancelled."""
        if self._threads.abandoned:
            await asyncio.wait([asyncio.wrap_future(f) for f in self._threads.abandoned])
        self.client.close()
        await self._threads.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Claiming:
    """A claim that is requested when it is awaited."""

    def __init__(self, threads: _Threads, request: Callable[[], Claim]) -> None:
        self._threads = threads
        self._request = request
        self._claim: Optional[AsyncClaim] = None

    def __await__(self) -> Generator[Any, None, "AsyncClaim"]:
        return self._get().__await__()

    async def _get(self) -> "AsyncClaim":
        future = self._threads.submit(self._request)
        try:
            claim = await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            self._threads.abandoned.add(self._threads.submit(_release_new, future))
            raise
        return AsyncClaim(self._threads, claim)

    async def __aenter__(self) -> "AsyncClaim":
        self._claim = await self._get()
        self._claim.claim.start_touching()
        return self._claim

    async def __aexit__(self, *raised: Any) -> None:
        if self._claim is not None:
            await asyncio.shield(self._threads.run(self._claim.claim.__exit__, *raised))


def _release_new(future: "Future[Claim]") -> None:
    """Release a claim whose caller was cancelled, unless it was there before."""
    try:
        claim = future.result()
        if claim.created:
            claim.release()
    except HostlerError:
        pass  # the server releases it after its claim_idle_ttl


class AsyncClaim:
    """As Claim."""

    def __init__(self, threads: _Threads, claim: Claim) -> None:
        self.id = claim.id
        self.created = claim.created
        self.claim = claim
        self.files = AsyncFiles(threads, claim)
        self._threads = threads

    def __repr__(self) -> str:
        return f"Async{self.claim!r}"

    @property
    def info(self) -> types.Claim:
        """The claim as it was last seen."""
        return self.claim.info

    async def refresh(self) -> types.Claim:
        """As Claim.refresh."""
        return await self._threads.run(self.claim.refresh)

    async def touch(self) -> types.Claim:
        """As Claim.touch."""
        return await self._threads.run(self.claim.touch)

    async def extend(self, by: float) -> types.Claim:
        """As Claim.extend."""
        return await self._threads.run(self.claim.extend, by)

    async def release(self, discard: bool = False) -> types.Claim:
        """As Claim.release."""
        return await self._threads.run(self.claim.release, discard)

    async def run(self, command: Sequence[str], **options: Any) -> types.CompletedCommand:
        """As Claim.run."""
        return await self._threads.run(self.claim.run, command, **options)

    async def start(self, command: Sequence[str], **options: Any) -> "AsyncCommand":
        """As Claim.start."""
        return AsyncCommand(self._threads, await self._threads.run(self.claim.start, command, **options))

    async def attach(self, id: str, after: int = 0, lost_timeout: float = 300.0) -> "AsyncCommand":
        """As Claim.attach."""
        return AsyncCommand(self._threads, await self._threads.run(self.claim.attach, id, after, lost_timeout))

    async def commands(self) -> List[types.ClaimCommand]:
        """As Claim.commands."""
        return await self._threads.run(self.claim.commands)

    async def wait(self, type: str, timeout: float, **options: Any) -> types.Wait:
        """As Claim.wait. The wait continues if this is cancelled."""
        return await self._threads.run(self.claim.wait, type, timeout, **options)

    async def signal(self, name: str, data: Any = None) -> types.SignalResult:
        """As Claim.signal."""
        return await self._threads.run(self.claim.signal, name, data)

    def port(self, number: int) -> "AsyncPort":
        """As Claim.port."""
        return AsyncPort(self._threads, self.claim.port(number))


class _Stream:
    """Parts of something that is read in a thread. A part that was being read when its
    reader was cancelled is what the next one gets."""

    def __init__(self, threads: _Threads, read: Callable[[], Optional[T]]) -> None:
        self._threads = threads
        self._read = read
        self._pending: "Optional[asyncio.Future[Any]]" = None

    async def next(self) -> Any:
        if self._pending is None:
            self._pending = asyncio.ensure_future(self._threads.run(self._read))
        part = await asyncio.shield(self._pending)
        return part

    def taken(self) -> None:
        self._pending = None

    async def end(self) -> None:
        """Wait for the thread, which was interrupted."""
        pending, self._pending = self._pending, None
        if pending is not None:
            await asyncio.wait([pending])
            if not pending.cancelled():
                pending.exception()  # it was retrieved


class AsyncCommand:
    """As Command: iterate over it with `async for`. A chunk is not lost when its reader
    is cancelled. Close it, or use `async with`, to free its thread."""

    def __init__(self, threads: _Threads, command: Command) -> None:
        self.id = command.id
        self.command = command
        self._threads = threads
        self._stream = _Stream(threads, functools.partial(next, command, None))

    def __repr__(self) -> str:
        return f"Async{self.command!r}"

    @property
    def result(self) -> Optional[types.CommandResult]:
        """How it ended, after the output's end."""
        return self.command.result

    @property
    def offset(self) -> int:
        """The offset after the output that was read."""
        return self.command.offset

    def __aiter__(self) -> "AsyncCommand":
        return self

    async def __anext__(self) -> Chunk:
        try:
            chunk = await self._stream.next()
        except Exception:
            self._stream.taken()
            raise
        self._stream.taken()
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def wait(self, stdout: Optional[IO[bytes]] = None, stderr: Optional[IO[bytes]] = None) -> types.CommandResult:
        """As Command.wait."""
        async for chunk in self:
            file = stdout if chunk.stream == "stdout" else stderr
            if file is not None:
                file.write(chunk.data)
        assert self.result is not None
        return self.result

    async def send(self, data: bytes) -> None:
        """As Command.send. If it is cancelled, how much was sent is not known."""
        await self._threads.run(self.command.send, data)

    async def close_input(self) -> None:
        """As Command.close_input."""
        await self._threads.run(self.command.close_input)

    async def signal(self, name: str) -> None:
        """As Command.signal."""
        await self._threads.run(self.command.signal, name)

    async def resize(self, rows: int, columns: int) -> None:
        """As Command.resize."""
        await self._threads.run(self.command.resize, rows, columns)

    async def status(self) -> types.ClaimCommand:
        """As Command.status."""
        return await self._threads.run(self.command.status)

    async def kill(self) -> None:
        """As Command.kill."""
        await self._threads.run(self.command.kill)

    async def close(self) -> None:
        """As Command.close."""
        self.command.close()
        await self._stream.end()

    async def __aenter__(self) -> "AsyncCommand":
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self.close()
        await asyncio.shield(self._threads.run(self.command.__exit__, *raised))


class AsyncFile:
    """As File: iterate over it with `async for`."""

    def __init__(self, threads: _Threads, file: File) -> None:
        self.file = file
        self.info = file.info
        self._stream = _Stream(threads, functools.partial(file.read, 64 << 10))

    def __aiter__(self) -> "AsyncFile":
        return self

    async def __anext__(self) -> bytes:
        data = await self._next()
        if not data:
            raise StopAsyncIteration
        return data

    async def _next(self) -> bytes:
        try:
            data: bytes = await self._stream.next()
        except Exception:
            self._stream.taken()
            raise
        self._stream.taken()
        return data

    async def close(self) -> None:
        """As File.close."""
        self.file.interrupt()
        await self._stream.end()
        self.file.close()

    async def __aenter__(self) -> "AsyncFile":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncFiles:
    """As Files. What writes takes content that can be read in a thread."""

    def __init__(self, threads: _Threads, claim: Claim) -> None:
        self._threads = threads
        self._files = claim.files

    async def stat(self, name: str) -> types.FileInfo:
        """As Files.stat."""
        return await self._threads.run(self._files.stat, name)

    async def list(self, name: str) -> AsyncIterator[types.FileInfo]:
        """As Files.list."""
        entries = self._files.list(name)
        while True:
            entry = await self._threads.run(next, entries, None)  # type: ignore[arg-type]
            if entry is None:
                return
            yield entry

    async def open(self, name: str, offset: int = 0, length: Optional[int] = None) -> AsyncFile:
        """As Files.open."""
        return AsyncFile(self._threads, await self._threads.run(self._files.open, name, offset, length))

    async def read(self, name: str, offset: int = 0, length: Optional[int] = None) -> bytes:
        """As Files.read."""
        return await self._threads.run(self._files.read, name, offset, length)

    async def get(self, name: str, to: IO[bytes]) -> types.FileInfo:
        """As Files.get. The local file is written in a thread."""
        return await self._threads.run(self._files.get, name, to)

    async def write(self, name: str, content: Content, mode: int = 0o644) -> types.FileInfo:
        """As Files.write."""
        return await self._threads.run(self._files.write, name, content, mode)

    async def write_tree(self, name: str, archive: Content) -> types.FileInfo:
        """As Files.write_tree."""
        return await self._threads.run(self._files.write_tree, name, archive)

    async def open_tree(self, name: str) -> AsyncFile:
        """As Files.open_tree."""
        return AsyncFile(self._threads, await self._threads.run(self._files.open_tree, name))

    async def remove(self, name: str, recursive: bool = False) -> None:
        """As Files.remove."""
        await self._threads.run(self._files.remove, name, recursive)


class AsyncPort:
    """As Port."""

    def __init__(self, threads: _Threads, port: Port) -> None:
        self._threads = threads
        self._port = port

    async def open(self) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the port, as of asyncio.open_connection."""
        transport = self._port.transport
        try:
            return await asyncio.wait_for(self._open(), transport.timeout)
        except (OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError) as err:
            failure = socket.timeout("timed out") if isinstance(err, asyncio.TimeoutError) else err
            raise transport.failure(failure) from err

    async def _open(self) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        to = self._port.transport
        reader, writer = await asyncio.open_connection(to.host, to.port, ssl=to.tls, limit=MAX_HEAD)
        try:
            fields = {"Host": f"[{to.host}]:{to.port}" if ":" in to.host else f"{to.host}:{to.port}"}
            fields.update({"Connection": "Upgrade", "Upgrade": "tcp", "Content-Length": "0", **to.authorization()})
            head = f"POST {to.prefix}{self._port.path} HTTP/1.1\r\n"
            writer.write((head + "".join(f"{k}: {v}\r\n" for k, v in fields.items()) + "\r\n").encode())
            answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            words = answer[0].split(" ", 2)
            status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
            if status == 101:
                return reader, writer
            headers = {k.strip().title(): v.strip() for k, _, v in (line.partition(":") for line in answer[1:])}
            size = headers.get("Content-Length", "")
            text = await reader.readexactly(min(int(size), MAX_PROBLEM)) if size.isdigit() else b""
            raise problem_of(status, headers, text)
        except BaseException:
            writer.close()
            raise

    @asynccontextmanager
    async def forward(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Tuple[str, int]]:
        """As Port.forward."""
        forward = self._port.forward(host, port)
        address = await self._threads.run(forward.__enter__)
        try:
            yield address
        finally:
            await self._threads.run(forward.__exit__)

    async def link(self, expires_in: Optional[float] = None) -> types.Link:
        """As Port.link."""
        return await self._threads.run(self._port.link, expires_in)
