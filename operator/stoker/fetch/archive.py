"""How are the files of a tar archive put on disk without trusting it?

Only plain files and folders are taken. Links, devices and sparse files are refused rather than
left out: an archive that holds them is not what it should be. Nothing is written before its name
was judged, every member must fit the disk as it is then, and the archive must end as archives end,
since a reader of tar takes one that was cut between two files for a whole one.

`tarfile`'s own extraction filter was not enough: it resolves links instead of refusing them, and
neither bounds sizes nor hashes on the way.
"""

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from stoker.api.reasons import TerminationClass
from stoker.fetch import RemoteFile
from stoker.fetch.disk import check_room, told_when_full
from stoker.fetch.errors import FetchError
from stoker.fetch.manifest import FileDigest
from stoker.fetch.partial import FileHash
from stoker.fetch.paths import check_paths

_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK_BYTES = 1024 * 1024
_MOST_MEMBERS = 10_000


def unpack(archive: Path, into: Path, *, uri: str) -> tuple[Path, tuple[FileDigest, ...]]:
    """Unpack into the new folder `into`; returns the folder of the model and its files.

    The folder of the model is the one folder that holds everything, if there is such a one: people
    pack `model/config.json` as often as `config.json`.
    """
    into.mkdir(parents=True)
    with archive.open("rb") as raw, _tar_errors(uri):
        zipped = raw.peek(2)[:2] == _GZIP_MAGIC
        stream = gzip.GzipFile(fileobj=raw) if zipped else raw
        digests = list(_members(_BoundedReader(stream), into, uri=uri))
    if not digests:
        raise FetchError(TerminationClass.WEIGHTS_MISSING, f"{uri}: the archive holds no file")
    tops = {digest.path.partition("/")[0] for digest in digests}
    top = tops.pop()
    if tops or any("/" not in digest.path for digest in digests):
        return into, tuple(digests)
    inner = tuple(
        FileDigest(path=d.path.removeprefix(f"{top}/"), size_bytes=d.size_bytes, sha256=d.sha256)
        for d in digests
    )
    return into / top, inner


class _BoundedReader(io.RawIOBase):
    """The archive's bytes; refuses to be read in one large piece.

    `tarfile` reads an extended header whole, at the size that the archive claims for it.
    """

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream
        self.last_block = b""
        """What was read last: after the last member it is a block of zeros."""

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _BLOCK_BYTES:
            raise tarfile.ReadError("a header is too large")
        self.last_block = self._stream.read(size)
        return self.last_block

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()


def _members(reader: _BoundedReader, into: Path, *, uri: str) -> Iterator[FileDigest]:
    paths: list[str] = []
    with tarfile.open(fileobj=reader, mode="r:", errorlevel=2) as tar:
        for member in tar:
            path = member.name.removeprefix("./").rstrip("/")
            if member.isdir():
                if path not in ("", "."):
                    check_paths([path], uri=uri)
                continue
            if not member.isreg() or member.issparse():
                raise _refused(uri, f"`{path[:200]}` is neither a plain file nor a folder")
            paths.append(path)
            if len(paths) > _MOST_MEMBERS:
                raise _refused(uri, f"it holds more than {_MOST_MEMBERS} files")
            check_paths([path], uri=uri)
            check_room(into, needed_bytes=member.size, uri=uri)
            content = tar.extractfile(member)
            assert content is not None
            yield _write(content, into / path, member=member, path=path, uri=uri)
    if len(reader.last_block) != tarfile.BLOCKSIZE or any(reader.last_block):
        raise tarfile.ReadError("it ends in the middle")


def _write(content: IO[bytes], target: Path, *, member: tarfile.TarInfo, path: str, uri: str) -> FileDigest:
    hasher = FileHash(RemoteFile(path=path, size_bytes=member.size, checksum=None, key=path))
    written = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with told_when_full(target.parent, needed_bytes=member.size, uri=uri), target.open("xb") as out:
            while block := content.read(_BLOCK_BYTES):
                out.write(block)
                hasher.update(block)
                written += len(block)
    except (FileExistsError, NotADirectoryError) as error:
        raise _refused(uri, f"`{path}` is there twice, or as a file and a folder") from error
    if written != member.size:
        raise tarfile.ReadError("it ends in the middle")
    return FileDigest(path=path, size_bytes=written, sha256=hasher.sha256)


@contextmanager
def _tar_errors(uri: str) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FetchError(
            TerminationClass.WEIGHTS_CORRUPT,
            f"{uri}: the archive cannot be read: {error}",
            fix="Pack it again as .tar or .tar.gz; other compression is not supported.",
        ) from error


def _refused(uri: str, why: str) -> FetchError:
    return FetchError(
        TerminationClass.SOURCE_NOT_ALLOWED,
        f"{uri}: the archive is refused: {why}",
        fix="Pack plain files and folders only, each once (`tar --dereference --hard-dereference`).",
    )
