"""A file on its way: bytes on disk under a temporary name, hashed as they come.

What an earlier run left is hashed once and then continued. The hash and the disk work in a thread,
a few megabytes at a time, so that memory stays flat and the connections are served meanwhile.
"""

import asyncio
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

from stoker.fetch import Checksum, RemoteFile
from stoker.fetch.disk import told_when_full
from stoker.fetch.progress import Progress

_BLOCK_BYTES = 4 * 1024 * 1024


class FileHash:
    """SHA-256 of a file, and the checksum that its source states, in one pass."""

    def __init__(self, file: RemoteFile) -> None:
        self._checksum = file.checksum
        self._sha256 = hashlib.sha256()
        self._git = None
        if file.checksum is not None and file.checksum.algorithm == "git-sha1":
            self._git = hashlib.sha1(f"blob {file.size_bytes}\0".encode(), usedforsecurity=False)

    def update(self, data: bytes | bytearray) -> None:
        """Take the next bytes of the file."""
        self._sha256.update(data)
        if self._git is not None:
            self._git.update(data)

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes so far, hexadecimal."""
        return self._sha256.hexdigest()

    @property
    def mismatch(self) -> tuple[Checksum, str] | None:
        """The stated checksum and what it is instead; None if they agree or nothing is stated."""
        if self._checksum is None:
            return None
        actual = (self._git or self._sha256).hexdigest()
        return None if actual == self._checksum.hex.lower() else (self._checksum, actual)


async def hash_file(path: Path, into: FileHash, *, count: Callable[[int], None]) -> int:
    """Hash a file on disk and `count` the bytes on the way; returns its size in bytes."""
    size = 0
    with await asyncio.to_thread(path.open, "rb", buffering=0) as stream:
        while block := await asyncio.to_thread(stream.read, _BLOCK_BYTES):
            await asyncio.to_thread(into.update, block)
            count(len(block))
            size += len(block)
    return size


class PartialFile:
    """The temporary file of one download; leave it with `close`."""

    def __init__(self, path: Path, file: RemoteFile, *, uri: str) -> None:
        self._path = path
        self._file = file
        self._uri = uri
        self._buffer = bytearray()
        self._on_disk = 0
        self.hash = FileHash(file)

    @classmethod
    async def resumed(cls, path: Path, file: RemoteFile, *, uri: str, progress: Progress) -> Self:
        """Open the file; what it holds from earlier counts, unless it is more than it should be."""
        partial = cls(path, file, uri=uri)
        if await asyncio.to_thread(partial._prepare):
            partial._on_disk = await hash_file(path, partial.hash, count=progress.found)
        if file.size_bytes is not None and partial._on_disk > file.size_bytes:
            progress.found(-partial._on_disk)
            await partial.restart()
        return partial

    @property
    def size_bytes(self) -> int:
        """Bytes so far."""
        return self._on_disk + len(self._buffer)

    async def write(self, chunk: bytes) -> None:
        """Add the next bytes."""
        self._buffer += chunk
        if len(self._buffer) >= _BLOCK_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Bring everything to disk that came so far."""
        await asyncio.to_thread(self._flush)

    async def restart(self) -> None:
        """Forget the bytes so far."""
        self._buffer.clear()
        self._on_disk = 0
        self.hash = FileHash(self._file)
        await asyncio.to_thread(self._path.unlink, missing_ok=True)

    async def finish(self, final: Path) -> None:
        """Give the file its name, so that it is there whole or not at all, also after a power cut."""
        await self.flush()
        await asyncio.to_thread(self._finish, final)

    def _prepare(self) -> bool:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self._path.exists()

    def _flush(self) -> None:
        needed = None if self._file.size_bytes is None else self._file.size_bytes - self._on_disk
        with (
            told_when_full(self._path.parent, needed_bytes=needed, uri=self._uri),
            self._path.open("ab", buffering=0) as stream,
        ):
            view = memoryview(bytes(self._buffer))
            while view:
                view = view[stream.write(view) :]
        self.hash.update(self._buffer)
        self._on_disk += len(self._buffer)
        self._buffer.clear()

    def _finish(self, final: Path) -> None:
        final.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("rb") as stream:
            os.fsync(stream.fileno())
        self._path.replace(final)
