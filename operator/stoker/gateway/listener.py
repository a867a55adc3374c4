"""Where do clients connect, and how does this end?"""

import asyncio
import contextlib
import ssl

from stoker.gateway.client_connection import ClientConnection
from stoker.gateway.data_path import DataPath

_BACKLOG = 4096


class Listener:
    """The ports that clients connect to."""

    __slots__ = ("_data_path", "_servers")

    def __init__(self, data_path: DataPath) -> None:
        self._data_path = data_path
        self._servers: list[asyncio.Server] = []

    async def open(
        self, host: str, port: int, *, tls: ssl.SSLContext | None = None, reuse_port: bool = False
    ) -> int:
        """Take connections from now on; returns the port, which is a free one for 0."""
        if not self._servers:
            self._data_path.wheel.start(self._data_path.loop)
        server = await self._data_path.loop.create_server(
            lambda: ClientConnection(self._data_path),
            host,
            port,
            ssl=tls,
            backlog=_BACKLOG,
            reuse_port=reuse_port or None,
        )
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def drain(self, within_s: float) -> None:
        """Take no more connections, let running requests finish, then close what is left."""
        for server in self._servers:
            server.close()
        data_path = self._data_path
        data_path.draining = True
        for client in list(data_path.clients):
            client.close_if_idle()
        if data_path.clients:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(data_path.all_left.wait(), within_s)
        for client in list(data_path.clients):
            client.abort()
        await asyncio.sleep(0)
        data_path.close()
