"""Files of a claim's container."""

from __future__ import annotations

import json
from typing import IO, Iterator, Optional, cast

from .errors import INVALID_ANSWER, HostlerError
from .transport import BLOCK, Content, Response, Transport, join
from .types import FileInfo, FilePage


class File:
    """The content of a file that is read. It raises an error, and does not end, if
    the connection breaks before the last byte."""

    def __init__(self, response: Response, info: Optional[FileInfo]) -> None:
        self.info = info  # of the whole file; None of an archive
        self._response = response
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """At most size bytes, of all that is left without a size; none at the end."""
        if size < 0:
            return b"".join(self)
        data = self._rest or self._response.read1(max(size, 1))
        self._rest = data[size:]
        return data[:size]

    def __iter__(self) -> Iterator[bytes]:
        while True:
            data = self.read(BLOCK)
            if not data:
                return
            yield data

    def close(self) -> None:
        """Close it."""
        self._response.close()

    def interrupt(self) -> None:
        """Make a read in another thread fail."""
        self._response.interrupt()

    def __enter__(self) -> "File":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Files:
    """Files of a claim's container. Names are absolute, without parts that are empty,
    . or .. Content is bytes, a binary file, or an iterable of bytes."""

    def __init__(self, transport: Transport, claim: str) -> None:
        self._transport = transport
        self._begin = join("/v1/claims", claim, "files")

    def _path(self, name: str) -> str:
        if not name.startswith("/"):
            raise ValueError(f"{name!r} is not an absolute path")
        whole = name.rstrip("/")
        return join(self._begin, *whole[1:].split("/")) if whole else self._begin + "/"

    def stat(self, name: str) -> FileInfo:
        """The description of a file. A link is not followed."""
        return cast(FileInfo, self._transport.call("GET", self._path(name), query={"stat": "true"})[1])

    def list(self, name: str) -> Iterator[FileInfo]:
        """The entries of a directory, in the order of their names' bytes."""
        after: Optional[str] = None
        while True:
            query = {"list": "true", "limit": 1000, "after": after}
            page = cast(FilePage, self._transport.call("GET", self._path(name), query=query)[1])
            yield from page["items"]
            after = page["next"]
            if not after:
                return

    def open(self, name: str, offset: int = 0, length: Optional[int] = None) -> File:
        """The content of a file, or a part of it, following links. A part that begins
        at or after the end is an error with code range_not_satisfiable."""
        headers = {"Accept": "application/octet-stream"}
        if offset or length is not None:
            if offset < 0 or length is not None and length < 1:
                raise ValueError("a part begins at 0 or later, and has at least one byte")
            headers["Range"] = f"bytes={offset}-{'' if length is None else offset + length - 1}"
        response = self._transport.stream("GET", self._path(name), headers=headers)
        try:
            info = json.loads(response.headers.get("Hostler-File", ""))
        except ValueError as err:
            response.close()
            raise HostlerError(response.status, INVALID_ANSWER, "the answer has no description of the file") from err
        return File(response, cast(FileInfo, info))

    def read(self, name: str, offset: int = 0, length: Optional[int] = None) -> bytes:
        """The content of a file, or a part of it, in memory."""
        with self.open(name, offset, length) as file:
            return file.read()

    def get(self, name: str, to: IO[bytes]) -> FileInfo:
        """Write the content of a file to a local one."""
        with self.open(name) as file:
            for data in file:
                to.write(data)
            return cast(FileInfo, file.info)

    def write(self, name: str, content: Content, mode: int = 0o644) -> FileInfo:
        """Replace a file, or create it with missing directories. It has the new
        content when all has arrived; if this fails, the old one stays."""
        return self._upload(name, {"mode": f"{mode & 0o777:04o}"}, "application/octet-stream", content)

    def write_tree(self, name: str, archive: Content) -> FileInfo:
        """Unpack a tar stream into a directory. What was unpacked before an error
        stays."""
        return self._upload(name, {"archive": "true"}, "application/x-tar", archive)

    def _upload(self, name: str, query: dict, kind: str, content: Content) -> FileInfo:
        headers = {"Content-Type": kind}
        return cast(FileInfo, self._transport.call("PUT", self._path(name), None, query, content, headers, retry=False)[1])

    def open_tree(self, name: str) -> File:
        """A tar stream of a directory or a file. Nothing in it is to be trusted: a
        tenant's program can put any name and link there."""
        return File(self._transport.stream("GET", self._path(name), {"archive": "true"}), None)

    def remove(self, name: str, recursive: bool = False) -> None:
        """Remove a file, a link or an empty directory; with recursive, also a directory
        that is not empty."""
        query = {"recursive": "true" if recursive else "false"}
        self._transport.call("DELETE", self._path(name), query=query, retry=False)
