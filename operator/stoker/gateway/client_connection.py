"""What does a client want on one connection, one request after the other?

Reads a request's head and body, hands it to an exchange, and reads the next request when that one is
over. A request that comes early (pipelining) waits in a small buffer; beyond it the connection is not
read. While an exchange runs the connection is read otherwise, for only so is a client's leaving seen.

Where a body was refused before it was read, the connection closes, but not at once: what is still on
its way would be answered with a reset, which can overtake the refusal.
"""

import asyncio
from typing import TYPE_CHECKING, cast

from stoker.gateway.answers import CONTINUE, models_answer, rejection_answer
from stoker.gateway.chunked_body import ChunkedBody, body_too_large
from stoker.gateway.endpoints import MODELS
from stoker.gateway.errors import Code, Rejection
from stoker.gateway.exchange import Exchange
from stoker.gateway.known_heads import KnownHead
from stoker.gateway.request_head import find_end, without_empty_lines
from stoker.gateway.timers import NEVER_S, Timed

if TYPE_CHECKING:
    from stoker.gateway.data_path import DataPath

_MOST_EARLY_BYTES = 64 * 1024
_LINGER_S = 5.0

_HEAD, _BODY, _BUSY, _CLOSING = range(4)
"""Waits for a head, reads a body, runs an exchange, or reads only to close."""


class ClientConnection(asyncio.Protocol, Timed):
    """One connection of a client."""

    __slots__ = (
        "_chunked",
        "_data_path",
        "_exchange",
        "_missing",
        "_paused_reading",
        "_paused_writing",
        "_pieces",
        "_received",
        "_state",
        "_transport",
        "will_close",
        "write",
    )

    def __init__(self, data_path: "DataPath") -> None:
        super().__init__()
        self._data_path = data_path
        self._transport: asyncio.Transport
        self._state = _HEAD
        self._received = b""
        """Of the next request, as far as it came."""
        self._exchange: Exchange | None = None
        self._chunked: ChunkedBody | None = None
        self._pieces: list[bytes] = []
        self._missing = 0
        """Bytes of the body that have not come yet."""
        self._paused_reading = False
        self._paused_writing = False
        self.will_close = False
        """Whether the connection closes after the present answer."""

    # What the loop tells it.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        self.write = self._transport.write
        data_path = self._data_path
        data_path.clients.add(self)
        data_path.wheel.watch(self, data_path.clock() + data_path.limits.keep_alive_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, or this side has closed."""
        self._state = _CLOSING
        self._data_path.client_left(self)
        self._data_path.wheel.forget(self)
        self._leave()

    def eof_received(self) -> bool:
        """The client sends no more: it is taken to have left."""
        if self._state != _CLOSING:
            self._state = _CLOSING
            self._leave()
            self._transport.abort()
        return False

    def _leave(self) -> None:
        exchange = self._exchange
        self._exchange = None
        self._received = b""
        if exchange is not None:
            exchange.client_gone()

    def data_received(self, data: bytes) -> None:
        """The client has sent something."""
        state = self._state
        if state == _HEAD and not self._paused_writing:
            self._read_head(self._received + data if self._received else data)
        elif state == _BODY:
            self._read_body(data)
        elif state != _CLOSING:
            self._received += data
            if len(self._received) > _MOST_EARLY_BYTES and not self._paused_reading:
                self._paused_reading = True
                self._transport.pause_reading()

    def pause_writing(self) -> None:
        """The client does not take its answer as fast as it comes."""
        self._paused_writing = True
        self._expect_within(self._data_path.limits.stall_s)
        if self._exchange is not None:
            self._exchange.pause()

    def resume_writing(self) -> None:
        """The client takes its answer again."""
        self._paused_writing = False
        if self._state == _CLOSING:
            return
        if self._exchange is not None:
            self.deadline_s = NEVER_S
            self._exchange.resume()
        elif self._state == _HEAD:
            self._expect_within(self._data_path.limits.keep_alive_s)
            self._next()

    def on_deadline(self, now_s: float) -> None:
        """The client was too slow, or had nothing to ask for long enough."""
        exchange = self._exchange
        if self._paused_writing or self._state == _CLOSING or (exchange is None and not self._received):
            self.abort()
            return
        rejection = Rejection(
            code=Code.REQUEST_TIMEOUT,
            message="The request did not come in time; send it without long pauses.",
        )
        self.will_close = True
        if exchange is not None:
            exchange.refuse(rejection)
        else:
            self._refuse_head(rejection)

    # Reading a request.

    def _read_head(self, data: bytes) -> None:
        data = without_empty_lines(data)
        end = find_end(data)
        if isinstance(end, Rejection):
            self._refuse_head(end)
            return
        if not end:
            if data and not self._received:
                self._expect_within(self._data_path.limits.head_s)
            self._received = data
            return
        read = self._data_path.heads.read(data[:end])
        if isinstance(read, Rejection):
            self._refuse_head(read)
            return
        known, length = read
        head = known.head
        self._received = b""
        self.deadline_s = NEVER_S
        self.will_close = not head.keep_alive or self._data_path.draining
        if head.path == MODELS and head.method in ("GET", "HEAD"):
            self._answer_models(known, length, data[end:])
            return
        self._exchange = Exchange(self, known, self._data_path)
        self._state = _BODY
        self._begin_body(self._exchange, known, length, data, end)

    def _begin_body(self, exchange: Exchange, known: KnownHead, length: int, data: bytes, end: int) -> None:
        head = known.head
        most = self._data_path.limits.body_bytes
        rejection = exchange.check() or (body_too_large(most) if length > most else None)
        if rejection is not None:
            # A body that came along is skipped; one that is still to come is not waited for.
            if head.chunked or length > len(data) - end:
                self.will_close = True
            else:
                self._received = data[end + length :]
            exchange.refuse(rejection)
            return
        if not head.chunked and length <= len(data) - end:
            self._received = data[end + length :]
            self._state = _BUSY
            exchange.receive(data[end : end + length])
            return
        if head.expects_continue and end == len(data):
            self.write(CONTINUE)
        self._chunked = ChunkedBody(most_bytes=most) if head.chunked else None
        self._missing = length
        self._expect_within(self._data_path.limits.body_silence_s)
        if end < len(data):
            self._read_body(data[end:])

    def _read_body(self, data: bytes) -> None:
        exchange = self._exchange
        assert exchange is not None
        chunked = self._chunked
        if chunked is not None:
            rejection = chunked.feed(data)
            if rejection is not None:
                self.will_close = True
                exchange.refuse(rejection)
                return
            if chunked.complete:
                # What follows can't be told apart from the body's framing any more.
                self.will_close = self.will_close or chunked.more_follows
                self._body_complete(exchange, chunked.body())
                return
        elif len(data) >= self._missing:
            self._pieces.append(data[: self._missing])
            self._received = data[self._missing :]
            self._body_complete(exchange, b"".join(self._pieces))
            return
        else:
            self._pieces.append(data)
            self._missing -= len(data)
        self.deadline_s = self._data_path.clock() + self._data_path.limits.body_silence_s

    def _body_complete(self, exchange: Exchange, content: bytes) -> None:
        self._chunked = None
        self._pieces.clear()
        self._state = _BUSY
        self.deadline_s = NEVER_S
        exchange.receive(content)

    def _answer_models(self, known: KnownHead, length: int, rest: bytes) -> None:
        if known.head.chunked or length:
            self.will_close = True  # Nobody has a use for that body.
        else:
            self._received = rest
        keys = self._data_path.keys
        key = None if keys is None else keys.authenticate(known.head.headers.get(b"authorization"))
        named = known.request_id or b""
        head_only = known.head.method == "HEAD"
        if isinstance(key, Rejection):
            answer = rejection_answer(key, request_id=named, close=self.will_close, head_only=head_only)
        else:
            models = self._data_path.table.models()
            answer = models_answer(models, request_id=named, close=self.will_close, head_only=head_only)
        self._state = _BUSY
        self.write(answer)
        self.finished()

    def _refuse_head(self, rejection: Rejection) -> None:
        """Answer what is no request, or not yet; what follows it can't be told."""
        self.will_close = True
        self.write(rejection_answer(rejection, request_id=b"", close=True))
        self._close(more_comes=True)

    # What the exchange asks for.

    def finished(self) -> None:
        """The exchange is over and its answer written: on to the next request."""
        self._exchange = None
        if self.will_close or self._data_path.draining:
            self._close(more_comes=self._state == _BODY)
            return
        self._state = _HEAD
        self._pieces.clear()
        self._chunked = None
        self._expect_within(self._data_path.limits.keep_alive_s)
        if self._received:
            # From the loop: thousands of early requests must not nest.
            self._data_path.loop.call_soon(self._next)

    def _next(self) -> None:
        if self._paused_reading and self._state == _HEAD:
            self._paused_reading = False
            self._transport.resume_reading()
        if self._received and self._state == _HEAD and not self._paused_writing:
            data, self._received = self._received, b""
            self._read_head(data)

    def close_if_idle(self) -> None:
        """This gateway drains: close what has no request."""
        if self._state == _HEAD and not self._received:
            self._close()
        else:
            self.will_close = True

    def abort(self) -> None:
        """Close at once."""
        self._state = _CLOSING
        self._leave()
        self._transport.abort()

    def _close(self, *, more_comes: bool = False) -> None:
        """Send what is written and close; if more comes from the client, read it away first."""
        self._state = _CLOSING
        self._received = b""
        self._pieces.clear()
        self._chunked = None
        if more_comes and self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()
        # A client that reads slowly has as much time for the last of its answer as for the rest of it.
        unsent = self._transport.get_write_buffer_size()
        self._expect_within(self._data_path.limits.stall_s if unsent else _LINGER_S)

    def _expect_within(self, seconds: float) -> None:
        self._data_path.wheel.watch(self, self._data_path.clock() + seconds)
