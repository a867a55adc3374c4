"""One HTTP GET that can start in the middle of a file and never leaves what is allowed.

It serves `https://` and `hf://`. Redirects are followed here and not by the client library: each
hop is judged by the address guard, must stay on TLS, and loses the credentials when it leaves the
origin that they are for (a hub redirects to a content network with a signed link).

Proxies of the environment are not used: a proxy would resolve names behind the guard's back.
"""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
from aiohttp import ClientResponse
from yarl import URL

from stoker.api.reasons import TerminationClass
from stoker.fetch import Body
from stoker.fetch.credentials import CA_FILE
from stoker.fetch.errors import FetchError, Interrupted, without_queries
from stoker.fetch.guard import AddressGuard, GuardedResolver

_CONNECT_S = 10.0
_CHUNK_BYTES = 1024 * 1024
_MOST_REDIRECTS = 5
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
_WAIT_LIMIT_S = 60.0


class HttpClient:
    """Connections to one source, with its credentials."""

    def __init__(
        self,
        *,
        guard: AddressGuard,
        ca_file: Path | None,
        authorization: str | None,
        idle_s: float,
    ) -> None:
        """`ca_file` is trusted besides the system's authorities; `idle_s` is the longest silence."""
        self._guard = guard
        self._tls = ssl.create_default_context()
        if ca_file is not None:
            self._tls.load_verify_locations(ca_file)
        self._authorization = authorization
        self._idle_s = idle_s
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def get(
        self, url: URL, *, what: str, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> AsyncIterator[ClientResponse]:
        """The response to a GET (or HEAD) after its redirects: 2xx or 416, everything else raises.

        `what` names the file for a person; the URL itself may hold a signature and is never shown.
        """
        response = await self._answer(url, what=what, headers=dict(headers or {}), method=method)
        try:
            yield response
        finally:
            _let_go(response)

    async def read_all(self, url: URL, *, what: str, limit_bytes: int) -> bytes:
        """A whole small file; more than `limit_bytes` raises."""
        data = bytearray()
        async with self.get(url, what=what) as response:
            async for chunk in _chunks(response, what=what):
                data += chunk
                if len(data) > limit_bytes:
                    raise FetchError(
                        TerminationClass.SOURCE_NOT_ALLOWED, f"{what} is larger than {limit_bytes} bytes"
                    )
        return bytes(data)

    @asynccontextmanager
    async def read(
        self, url: URL, *, what: str, offset: int, length: int | None = None, etag: str | None = None
    ) -> AsyncIterator[Body]:
        """The bytes of a file from `offset` on, or from 0 if the server cannot or the file changed.

        All of them, or the `length` that is asked for if the server can.
        """
        headers = {}
        if offset > 0 or length is not None:
            headers["Range"] = f"bytes={offset}-{'' if length is None else offset + length - 1}"
            if etag is not None:
                headers["If-Range"] = etag
        async with self.get(url, what=what, headers=headers) as response:
            if response.status != 416:
                yield _body(response, asked=offset, what=what)
                return
        async with self.get(url, what=what) as response:
            yield _body(response, asked=0, what=what)

    async def _answer(self, url: URL, *, what: str, headers: dict[str, str], method: str) -> ClientResponse:
        headers = {"Accept-Encoding": "identity", **headers}
        if self._authorization is not None:
            headers["Authorization"] = self._authorization
        self._check(url, what=what)
        for _ in range(_MOST_REDIRECTS + 1):
            with _network_errors(what):
                response = await self._opened().request(method, url, headers=headers, allow_redirects=False)
            location = response.headers.get("Location")
            if response.status not in (301, 302, 303, 307, 308) or location is None:
                break
            _let_go(response)
            target = _target(url, location, what=what)
            self._check(target, what=what)
            if target.origin() != url.origin():
                headers.pop("Authorization", None)
            url = target
        else:
            raise FetchError(
                TerminationClass.WEIGHTS_UNREACHABLE,
                f"{what}: more than {_MOST_REDIRECTS} redirects in a row",
            )
        if (failure := _failure(response, what=what, authorized="Authorization" in headers)) is not None:
            _let_go(response)
            raise failure
        return response

    def _check(self, url: URL, *, what: str) -> None:
        if url.host is None or url.scheme not in ("https", "http"):
            raise FetchError(
                TerminationClass.SOURCE_NOT_ALLOWED, f"{what}: a redirect leads to no web address"
            )
        if url.scheme == "http" and not self._guard.allow_internal:
            raise FetchError(
                TerminationClass.SOURCE_NOT_ALLOWED,
                f"{what}: {url.host} is asked without TLS (http), where anyone on the way can change weights",
                fix="Serve the weights over https.",
            )
        self._guard.check_host(url.host)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=self._tls, resolver=GuardedResolver(self._guard), use_dns_cache=False
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=self._idle_s),
                auto_decompress=False,
                read_bufsize=_CHUNK_BYTES,
                headers={"User-Agent": "stoker"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def _target(url: URL, location: str, *, what: str) -> URL:
    """Where a redirect leads; the location is kept byte for byte, as it may be signed."""
    try:
        target = url.join(URL(location, encoded=True))
        target.explicit_port  # noqa: B018 - a port that is no number is only found here
    except ValueError as error:
        raise _no_web_address(what) from error
    return target


def _no_web_address(what: str) -> FetchError:
    return FetchError(TerminationClass.SOURCE_NOT_ALLOWED, f"{what}: a redirect leads to no web address")


@contextmanager
def _network_errors(what: str) -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        raise FetchError(
            TerminationClass.WEIGHTS_UNREACHABLE,
            f"{what}: the certificate of {error.host} is not trusted: {error.certificate_error}",
            fix=f"Put the authority that signed it into the credentials Secret under the key `{CA_FILE}`.",
        ) from error
    except aiohttp.ClientConnectorError as error:
        cause = error.os_error.strerror or error.os_error
        raise Interrupted(f"no connection to {error.host}: {cause}") from error
    except aiohttp.ClientPayloadError as error:
        raise Interrupted("the connection broke in the middle of the file") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Interrupted(without_queries(str(error)) or type(error).__name__) from error


async def _chunks(response: ClientResponse, *, what: str) -> AsyncGenerator[bytes, None]:
    with _network_errors(what):
        async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
            yield chunk


def _let_go(response: ClientResponse) -> None:
    """Keep the connection for the next request, or cut it if there is more to come on it.

    An orderly end of TLS would wait for a server that may be the one that fell silent.
    """
    if not response.content.at_eof() and response.connection is not None:
        transport = response.connection.transport
        if transport is not None:
            transport.abort()
    response.release()


def _body(response: ClientResponse, *, asked: int, what: str) -> Body:
    """Where the bytes start and how large the file is (RFC 9110, sections 14.4 and 15.3.7)."""
    start, size = 0, response.content_length
    if response.status == 206:
        start = asked
        total = response.headers.get("Content-Range", "").rpartition("/")[2]
        size = int(total) if total.isdigit() else None
        if not response.headers.get("Content-Range", "").startswith(f"bytes {asked}-"):
            raise Interrupted("the server answered with another range than the one asked for")
    return Body(offset=start, size_bytes=size, chunks=_chunks(response, what=what))


def _failure(response: ClientResponse, *, what: str, authorized: bool) -> Exception | None:
    status, reason = response.status, response.reason or ""
    if 200 <= status < 300 or status == 416:
        return None
    if status in _TRANSIENT_STATUSES or status >= 500:
        wait = response.headers.get("Retry-After", "")
        wait_s = min(float(wait), _WAIT_LIMIT_S) if wait.isdigit() else None
        return Interrupted(f"the server answered {status} {reason}".rstrip(), wait_s=wait_s)
    if status in (404, 410):
        return FetchError(TerminationClass.WEIGHTS_MISSING, f"{what} does not exist ({status})")
    if status in (401, 403):
        how = "refuses the credentials" if authorized else "asks for credentials, and none are given"
        return FetchError(TerminationClass.WEIGHTS_FORBIDDEN, f"{what}: the server {how} ({status})")
    return FetchError(
        TerminationClass.WEIGHTS_UNREACHABLE, f"{what}: the server answered {status} {reason}".rstrip()
    )
