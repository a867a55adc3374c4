"""Asks the engine something over HTTP, on this machine.

One request, one connection, the whole answer with a deadline. The standard library's client blocks,
and a thread that waits for a hung engine would hold up the supervisor's exit, so the bytes come through
asyncio; `http.client` still parses them.
"""

import asyncio
import http.client
import io
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the engine said."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body as JSON; None if it is not."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class _Received:
    """Just enough of a socket for `http.client` to parse what came through asyncio."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Where the engine listens, and the key that it wants, if any."""

    port: int
    api_key: str | None = None

    async def get(self, path: str, *, timeout_s: float) -> Answer:
        """GET; raises OSError when there is no whole answer in time (TimeoutError is one)."""
        return await self._ask("GET", path, b"", timeout_s=timeout_s)

    async def post(self, path: str, document: dict[str, Any], *, timeout_s: float) -> Answer:
        """POST of a JSON document; raises as `get`."""
        return await self._ask("POST", path, json.dumps(document).encode(), timeout_s=timeout_s)

    async def _ask(self, method: str, path: str, body: bytes, *, timeout_s: float) -> Answer:
        headers = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "Connection: close"]
        if self.api_key:
            headers.append(f"Authorization: Bearer {self.api_key}")
        if body:
            headers += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        request = "\r\n".join([*headers, "", ""]).encode() + body
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(request)
                await writer.drain()
                received = await reader.read(-1)
            finally:
                writer.close()
        response = http.client.HTTPResponse(_Received(received))  # type: ignore[arg-type]
        try:
            response.begin()
            return Answer(status=response.status, body=response.read())
        except http.client.HTTPException as error:
            raise ConnectionError(f"{method} {path} got a broken answer") from error
        finally:
            response.close()
