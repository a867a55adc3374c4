"""How a library that opens its own sockets is held to the address guard.

The object stores' client is compiled code: it resolves names and follows redirects by itself. It
does take a proxy, so it gets one of ours: a CONNECT proxy on loopback that resolves, asks the
guard and connects to the judged addresses. TLS stays between the library and the store.

Rejected: judging the endpoint's name once before the library starts, as neither a second answer of
the name server nor a redirect would be seen; a store's redirect was seen to be followed to
another host.
"""

import asyncio
import base64
import contextlib
import hmac
import secrets
from asyncio import StreamReader, StreamWriter

from stoker.fetch.errors import FetchError
from stoker.fetch.guard import AddressGuard, GuardedResolver

_HEAD_LIMIT_BYTES = 16 * 1024
_CHUNK_BYTES = 256 * 1024
_CONNECT_S = 10.0


class GuardedTunnel:
    """A CONNECT proxy for one library of this process, on a port of loopback.

    Others on the host cannot use it: the URL holds a random password.
    """

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._password = secrets.token_hex(16)
        self._server: asyncio.Server | None = None
        self._relays: set[asyncio.Task[None]] = set()
        self.refusal: FetchError | None = None
        """Why the guard refused a connection, as the library only learns that there is none."""

    async def url(self) -> str:
        """Address of the proxy, which is started when it is first asked for."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_HEAD_LIMIT_BYTES)
        port = self._server.sockets[0].getsockname()[1]
        return f"http://stoker:{self._password}@127.0.0.1:{port}"

    async def close(self) -> None:
        """Stop listening and cut what is open."""
        if self._server is None:
            return
        self._server.close()
        for relay in self._relays:
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        relay = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._relays.add(relay)
        relay.add_done_callback(self._relays.discard)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await _read_head(reader)
            method, _, rest = head.partition(" ")
            host, _, port = rest.partition(" ")[0].rpartition(":")
            if method != "CONNECT" or not port.isdigit() or not self._authorized(head):
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
                return
            try:
                far_reader, far_writer = await self._connect(host.strip("[]"), int(port))
            except (FetchError, OSError) as error:
                if isinstance(error, FetchError):
                    self.refusal = error
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
                return
            with contextlib.closing(far_writer):
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await asyncio.gather(_relay(reader, far_writer), _relay(far_reader, writer))

    def _authorized(self, head: str) -> bool:
        expected = base64.b64encode(f"stoker:{self._password}".encode()).decode()
        for line in head.split("\r\n")[1:]:
            name, _, value = line.partition(":")
            if name.strip().lower() == "proxy-authorization":
                return hmac.compare_digest(value.strip().removeprefix("Basic ").encode(), expected.encode())
        return False

    async def _connect(self, host: str, port: int) -> tuple[StreamReader, StreamWriter]:
        failure: OSError = ConnectionError(f"{host} has no address")
        for result in await GuardedResolver(self._guard).resolve(host, port):
            try:
                connecting = asyncio.open_connection(result["host"], port)
                return await asyncio.wait_for(connecting, _CONNECT_S)
            except OSError as error:
                failure = error
        raise failure


async def _read_head(reader: StreamReader) -> str:
    try:
        return (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.LimitOverrunError as error:
        raise ConnectionError("the head of a request is too long") from error


async def _relay(reader: StreamReader, writer: StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
