"""Fetchers: one for each kind of source, all with the same shape.

A `WeightsSource` lists its files and opens one of them at an offset. Everything that is hard about
fetching (resuming, verifying, disk room, placing) is done once, in `download.py`, on that shape.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    """A checksum that the source itself states for a file."""

    algorithm: Literal["sha256", "git-sha1"]
    """`git-sha1` is the name of a git blob: SHA-1 over `blob <size>`, a zero byte and the content."""
    hex: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file of a source."""

    path: str
    """Relative to the folder of the model, with slashes; not yet checked (`paths.py`)."""
    size_bytes: int | None
    """Size, if the source says it before the file is read."""
    checksum: Checksum | None
    key: str
    """What the source calls it: a URL, an object's key."""
    etag: str | None = None
    """The source's own mark for this content, where a resumed read must ask for the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a source holds at this moment."""

    version: str | None
    """Commit that the revision stands for; None if the source has no versions."""
    identity: str
    """Text that changes whenever the content changes: partial files are kept only while it stays."""
    files: tuple[RemoteFile, ...]
    archive: bool = False
    """Whether the one file is a tar archive that holds the files of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A file that is being read."""

    offset: int
    """Where the bytes start: as asked, or 0 if the source cannot start in the middle."""
    size_bytes: int | None
    """Size of the whole file, if the source says it now."""
    chunks: AsyncGenerator[bytes, None]
    """Raises `Interrupted` if the source breaks off."""


class WeightsSource(Protocol):
    """One model (or adapter) at one kind of source.

    Both methods raise `FetchError` when it is no use to ask again, and `Interrupted` when it may be.
    """

    async def listing(self) -> Listing:
        """The files with what is known of them."""

    def open(
        self, file: RemoteFile, *, offset: int, length: int | None = None
    ) -> AbstractAsyncContextManager[Body]:
        """The bytes of a file from `offset` on; `length` is how many will be read, if not all.

        A source that can't send a part of a file sends more.
        """

    async def close(self) -> None:
        """Give back connections."""
