"""The little of ASGI that the server needs: types, reading a body, answering, noticing that a client left."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

TRANSPORT = "stand_in.transport"
"""Extension of the scope by which a fault gets at the connection (`server.Protocol` puts it there)."""


class ClientLeft(Exception):
    """The client has closed the connection."""


def header(scope: Scope, name: str) -> str | None:
    """A request header, by its lower-case name."""
    wanted = name.encode()
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == wanted), None)


async def read_body(receive: Receive) -> bytes:
    """The whole body; raises `ClientLeft`."""
    pieces = []
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(pieces)


async def start(
    send: Send, status: int, *, content_type: bytes | None, extra: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    """Send the head of a response."""
    headers = [*extra, (b"vary", b"Origin")]
    if content_type is not None:
        headers.insert(0, (b"content-type", content_type))
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def answer(
    send: Send,
    body: bytes,
    *,
    status: int = 200,
    content_type: bytes | None = None,
    extra: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    """Send a whole response."""
    length = (b"content-length", str(len(body)).encode())
    await start(send, status, content_type=content_type, extra=(length, *extra))
    await send({"type": "http.response.body", "body": body})


async def answer_json(
    send: Send, document: Any, *, status: int = 200, extra: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    """Send a JSON document."""
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    await answer(send, body, status=status, content_type=b"application/json", extra=extra)


async def send_piece(send: Send, piece: bytes) -> None:
    """Send one piece of a stream."""
    await send({"type": "http.response.body", "body": piece, "more_body": True})


async def end(send: Send) -> None:
    """End a stream."""
    await send({"type": "http.response.body", "body": b""})


@contextlib.asynccontextmanager
async def watching(receive: Receive, on_leave: Callable[[], None]) -> AsyncIterator[None]:
    """Call `on_leave` as soon as the client leaves while the block runs."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        on_leave()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
