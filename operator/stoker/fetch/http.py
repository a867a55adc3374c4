"""`https://`: a folder with a `SHA256SUMS` file, or one tar archive, on any web server.

A web server has no listing that programs can rely on, so the folder brings its own: the file that

    find . -type f ! -name SHA256SUMS -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum > SHA256SUMS

writes. It says what there is and what each file must be; its own SHA-256 is the model's digest.

An archive has neither, so it is kept as it comes until it is whole, and is resumed only while the
server's ETag stays the same.
"""

import re
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import quote

from yarl import URL

from stoker.api.reasons import TerminationClass
from stoker.core.sources import Source
from stoker.fetch import Body, Checksum, Listing, RemoteFile
from stoker.fetch.errors import FetchError
from stoker.fetch.paths import check_count
from stoker.fetch.transport import HttpClient

SUMS_FILE = "SHA256SUMS"
ARCHIVE_ENDINGS = (".tar", ".tar.gz", ".tgz")
_SUMS_LIMIT_BYTES = 16 * 1024 * 1024
_SUMS_LINE = re.compile(r"(?P<hex>[0-9a-fA-F]{64}) [ *](?:\./)?(?P<path>.+)")


def parse_sums(text: str, *, uri: str) -> tuple[tuple[str, str], ...]:
    """Path and SHA-256 of each line of a SHA256SUMS file; raises `WeightsCorrupt` at a bad line.

    The line of the file itself is left out, which `sha256sum * > SHA256SUMS` writes.
    """
    files = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = _SUMS_LINE.fullmatch(line)
        if match is None:
            raise FetchError(
                TerminationClass.WEIGHTS_CORRUPT,
                f"{uri}: line {number} of {SUMS_FILE} is not `<sha256>  <path>`",
                fix=f"Write {SUMS_FILE} with `sha256sum`.",
            )
        if match["path"] != SUMS_FILE:
            files.append((match["path"], match["hex"].lower()))
    return tuple(files)


class HttpFolderSource:
    """A folder with a SHA256SUMS file."""

    def __init__(self, source: Source, *, client: HttpClient) -> None:
        self._uri = source.uri
        self._base = source.uri.rstrip("/")
        self._client = client

    async def listing(self) -> Listing:
        """What SHA256SUMS says, with the sizes that HEAD tells where the server answers it."""
        what = f"{self._uri}: the file `{SUMS_FILE}`"
        try:
            data = await self._client.read_all(self._url(SUMS_FILE), what=what, limit_bytes=_SUMS_LIMIT_BYTES)
        except FetchError as error:
            if error.reason is not TerminationClass.WEIGHTS_MISSING:
                raise
            raise FetchError(
                error.reason,
                error.message,
                fix=f"Correct `model.uri`: it must be a folder that holds a {SUMS_FILE} file, "
                f"or end in {', '.join(ARCHIVE_ENDINGS)}.",
            ) from error
        text = data.decode(errors="replace")
        sums = parse_sums(text, uri=self._uri)
        check_count(len(sums), uri=self._uri)
        files = []
        for path, digest in sums:
            checksum = Checksum(algorithm="sha256", hex=digest)
            head = await _head(self._client, self._url(path), what=f"{self._uri}: the file `{path}`")
            files.append(RemoteFile(path=path, size_bytes=head.size_bytes, checksum=checksum, key=path))
        identity = f"{self._uri} {sha256(data).hexdigest()}"
        return Listing(version=None, identity=identity, files=tuple(files))

    def open(
        self, file: RemoteFile, *, offset: int, length: int | None = None
    ) -> AbstractAsyncContextManager[Body]:
        """The bytes of one file of the folder."""
        what = f"{self._uri}: the file `{file.path}`"
        return self._client.read(self._url(file.key), what=what, offset=offset, length=length)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def _url(self, path: str) -> URL:
        return URL(f"{self._base}/{quote(path)}", encoded=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    size_bytes: int | None
    etag: str | None


async def _head(client: HttpClient, url: URL, *, what: str) -> _Head:
    """What HEAD says of a file; nothing where the server does not answer HEAD."""
    try:
        async with client.get(url, what=what, method="HEAD") as response:
            return _Head(size_bytes=response.content_length, etag=response.headers.get("ETag"))
    except FetchError as error:
        if error.reason is TerminationClass.WEIGHTS_UNREACHABLE:
            return _Head(size_bytes=None, etag=None)
        raise


class HttpArchiveSource:
    """One tar archive."""

    def __init__(self, source: Source, *, client: HttpClient) -> None:
        self._uri = source.uri
        self._client = client

    async def listing(self) -> Listing:
        """The archive as the one file, marked by its ETag."""
        head = await _head(self._client, URL(self._uri, encoded=True), what=self._uri)
        etag = None if head.etag is None or head.etag.startswith("W/") else head.etag
        archive = RemoteFile(
            path="archive", size_bytes=head.size_bytes, checksum=None, key=self._uri, etag=etag
        )
        identity = f"{self._uri} {etag}" if etag is not None else ""
        return Listing(version=None, identity=identity, files=(archive,), archive=True)

    def open(
        self, file: RemoteFile, *, offset: int, length: int | None = None
    ) -> AbstractAsyncContextManager[Body]:
        """The bytes of the archive."""
        start = offset if file.etag is not None else 0
        url = URL(self._uri, encoded=True)
        return self._client.read(url, what=self._uri, offset=start, length=length, etag=file.etag)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()
