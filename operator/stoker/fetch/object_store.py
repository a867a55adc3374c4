"""`s3://`, `gs://` and `az://`: all objects below a prefix, through `obstore`.

The client signs requests and speaks the three dialects. It is told not to try again by itself,
because a broken read is resumed by `download.py` at the byte where it stopped, and its sockets go
through the guarded tunnel unless internal addresses are allowed.

Without credentials in the Secret a bucket is read unsigned. Rejected: the credentials of the node
from the metadata service, as they are link-local, and the node's rights and not the user's.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from typing import Any

from obstore.exceptions import BaseError, PermissionDeniedError, PreconditionError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store

from stoker.api.reasons import TerminationClass
from stoker.core.sources import Scheme, Source
from stoker.fetch import Body, Listing, RemoteFile
from stoker.fetch.credentials import Credentials
from stoker.fetch.errors import FetchError, Interrupted, without_queries
from stoker.fetch.paths import check_count
from stoker.fetch.tunnel import GuardedTunnel

_CHUNK_BYTES = 1024 * 1024
_STATUS = re.compile(r"status code: (\d{3})")
_NO_LIMIT = "30 days"
"""The client's own time-out is for a whole read, and weights take as long as they take."""

_S3_KEYS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AWS_REQUEST_PAYER",
)
_GS_KEYS = ("GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS")
_AZ_KEYS = (
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_CLIENT_ID",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_TENANT_ID",
    "AZURE_STORAGE_ENDPOINT",
)
_ENDPOINT_KEYS = ("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT")
_SIGNING_KEYS = frozenset(
    {
        "AWS_ACCESS_KEY_ID",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_CLIENT_SECRET",
    }
)


class ObjectStoreSource:
    """All objects below one prefix of a bucket or container."""

    def __init__(
        self, source: Source, *, credentials: Credentials, tunnel: GuardedTunnel | None, idle_s: float
    ) -> None:
        """Without a `tunnel` the client connects by itself, also without TLS and to internal addresses."""
        self._source = source
        self._credentials = credentials
        self._tunnel = tunnel
        self._idle_s = idle_s
        self._store: S3Store | GCSStore | AzureStore | None = None

    async def listing(self) -> Listing:
        """Every object below the prefix but the empty ones that stand for folders."""
        store = await self._opened()
        prefix = f"{self._source.path}/" if self._source.path else ""
        files = []
        with self._errors(self._source.uri):
            async for objects in store.list(self._source.path or None):
                for found in objects:
                    path = found["path"].removeprefix(prefix)
                    file = RemoteFile(
                        path=path,
                        size_bytes=found["size"],
                        checksum=None,
                        key=found["path"],
                        etag=found["e_tag"],
                    )
                    files.append(file)
                check_count(len(files), uri=self._source.uri)
        seen = "\n".join(
            f"{file.path} {file.size_bytes} {file.etag}" for file in sorted(files, key=lambda f: f.path)
        )
        identity = f"{self._source.uri} {sha256(seen.encode()).hexdigest()}"
        return Listing(version=None, identity=identity, files=tuple(files))

    @asynccontextmanager
    async def open(self, file: RemoteFile, *, offset: int, length: int | None = None) -> AsyncIterator[Body]:
        """The bytes of an object from `offset` on, as long as it is still the one that was listed."""
        store = await self._opened()
        what = f"{self._source.uri}: the object `{file.path}`"
        options: dict[str, Any] = {}
        if length is not None:
            options["range"] = (offset, offset + length)
        elif offset > 0:
            options["range"] = {"offset": offset}
        if file.etag is not None:
            options["if_match"] = file.etag
        with self._errors(what):
            result = await store.get_async(file.key, options=options)  # type: ignore[arg-type]
        yield Body(
            offset=result.range[0],
            size_bytes=result.meta["size"],
            chunks=self._chunks(result.stream(min_chunk_size=_CHUNK_BYTES), what=what),
        )

    async def close(self) -> None:
        """Close the tunnel; the client's connections end with it."""
        if self._tunnel is not None:
            await self._tunnel.close()

    async def _chunks(self, stream: AsyncIterator[Any], *, what: str) -> AsyncGenerator[bytes, None]:
        with self._errors(what):
            async for chunk in stream:
                yield bytes(chunk)

    async def _opened(self) -> S3Store | GCSStore | AzureStore:
        if self._store is None:
            client: dict[str, Any] = {"timeout": _NO_LIMIT, "read_timeout": f"{self._idle_s:.0f} s"}
            client["allow_http"] = self._tunnel is None
            if self._tunnel is not None:
                self._refuse_plain_http()
                client["proxy_url"] = await self._tunnel.url()
            if self._credentials.ca_file is not None:
                client["root_certificate"] = self._credentials.ca_file.read_bytes()
            self._store = self._built({"client_options": client, "retry_config": {"max_retries": 0}})
        return self._store

    def _refuse_plain_http(self) -> None:
        for key in _ENDPOINT_KEYS:
            if (self._credentials.get(key) or "").startswith("http://"):
                raise FetchError(
                    TerminationClass.SOURCE_NOT_ALLOWED,
                    f"{self._source.uri}: `{key}` is not https, so anyone on the way can change weights",
                    fix="Use an https endpoint, or allow cluster-internal sources in the operator.",
                )

    def _built(self, options: dict[str, Any]) -> S3Store | GCSStore | AzureStore:
        bucket = self._source.authority
        try:
            match self._source.scheme:
                case Scheme.S3:
                    return S3Store(bucket, config=self._config(_S3_KEYS), **options)
                case Scheme.GS:
                    return GCSStore(bucket, config=self._config(_GS_KEYS), **options)
                case _:
                    return AzureStore(bucket, config=self._config(_AZ_KEYS), **options)
        except (BaseError, ValueError) as error:
            raise FetchError(
                TerminationClass.WEIGHTS_FORBIDDEN,
                f"{self._source.uri}: the credentials cannot be used: {_first_line(error)}",
            ) from error

    def _config(self, keys: tuple[str, ...]) -> Any:
        config: dict[str, Any] = {key.lower(): value for key in keys if (value := self._credentials.get(key))}
        if not any(key in _SIGNING_KEYS for key in keys if self._credentials.get(key)):
            config["skip_signature"] = True
        return config

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise FetchError(TerminationClass.WEIGHTS_MISSING, f"{what} does not exist (404)") from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise self._forbidden(what, status=_status(error)) from error
        except PreconditionError as error:
            raise FetchError(
                TerminationClass.WEIGHTS_CORRUPT,
                f"{what} changed while it was being fetched",
                fix="Do not overwrite weights in place: put a new version under a new prefix.",
            ) from error
        except BaseError as error:
            raise self._classed(error, what) from error

    def _classed(self, error: BaseError, what: str) -> Exception:
        """The client tells of most failures in words only; the status code in them is what counts."""
        if self._tunnel is not None and self._tunnel.refusal is not None:
            return self._tunnel.refusal
        status = _status(error)
        if status == 404:
            return FetchError(TerminationClass.WEIGHTS_MISSING, f"{what}: no such bucket or container (404)")
        if status in (401, 403):
            return self._forbidden(what, status=status)
        if status is not None and 300 <= status < 500 and status not in (408, 416, 429):
            return FetchError(TerminationClass.WEIGHTS_UNREACHABLE, f"{what}: {_first_line(error)}")
        return Interrupted(_first_line(error))

    def _forbidden(self, what: str, *, status: int | None) -> FetchError:
        return FetchError(
            TerminationClass.WEIGHTS_FORBIDDEN,
            f"{what}: the store refuses the credentials, or the lack of them ({status or 403})",
            fix="Name a Secret in `model.credentialsSecret` whose keys may list and read this prefix.",
        )


def _status(error: Exception) -> int | None:
    match = _STATUS.search(str(error))
    return int(match[1]) if match else None


def _first_line(error: Exception) -> str:
    return without_queries(str(error).partition("\n")[0])[:300]
