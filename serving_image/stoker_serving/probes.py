"""Answers the kubelet's probes and says the instance's state, on a port of its own.

Its own port and process, so that an engine with a busy event loop is never taken for a dead one, and
so that no key of the engine is needed. It speaks as much HTTP as a probe does.
"""

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

Page = Callable[[], tuple[bool, dict[str, Any]]]
"""Says whether the answer is a yes (200) or a no (503), and the document that explains it."""

_REQUEST_TIMEOUT_S = 5.0


class ProbeServer:
    """Serves each path of `pages` by GET."""

    def __init__(self, pages: dict[str, Page]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None

    async def start(self, port: int) -> int:
        """Listens on all addresses and returns the port; 0 picks a free one."""
        self._server = await asyncio.start_server(self._answer, "0.0.0.0", port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Stops listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(head))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked is gone, too slow, or not a probe; there is nobody to tell
        finally:
            writer.close()

    def _response(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        path = words[1].split(b"?", 1)[0].decode(errors="replace") if len(words) == 3 else ""
        page = self._pages.get(path)
        if page is None or words[0] != b"GET":
            status, document = HTTPStatus.NOT_FOUND, {"paths": sorted(self._pages)}
        else:
            good, document = page()
            status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
        body = json.dumps(document).encode()
        lines = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        return "\r\n".join([*lines, "", ""]).encode() + body
