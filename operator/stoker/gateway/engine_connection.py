"""What does the engine say on one connection?

Reads answers and hands them to the attempt that the connection carries: the head as values, the
body without its framing, once for each read. It knows HTTP and nothing else; what an answer means is
the attempt's matter.
"""

import asyncio
from typing import TYPE_CHECKING, Final, cast

import httptools

from stoker.gateway.timers import NEVER_S, Timed

if TYPE_CHECKING:
    from stoker.gateway.attempt import Attempt
    from stoker.gateway.pool import Pool

UNREACHABLE: Final = "could not be reached"
CLOSED: Final = "closed the connection"
NOT_HTTP: Final = "answered something that is not HTTP"
_WORTH_COPYING_BYTES = 64 * 1024
"""A body up to this goes out in one piece with its head."""


class EngineConnection(asyncio.Protocol, Timed):
    """One connection to an engine, which carries one attempt at a time, or waits in its pool."""

    __slots__ = (
        "_attempt",
        "_bodies",
        "_complete",
        "_head_complete",
        "_opening",
        "_parser",
        "_pool",
        "_reusable",
        "_transport",
        "answered",
        "headers",
        "on_body",
        "status",
        "used",
    )

    def __init__(self, pool: "Pool") -> None:
        super().__init__()
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._opening: asyncio.Task[object] | None = None
        self._attempt: Attempt | None = None
        self._bodies: list[bytes] = []
        self.on_body = self._bodies.append
        self._head_complete = False
        self._complete = False
        self._reusable = False
        """Whether the connection can carry another attempt after the answer."""
        self.status = 0
        """Status of the answer."""
        self.headers: list[tuple[bytes, bytes]] = []
        """Headers of the answer, their names in lower case."""
        self.answered = False
        """Whether a byte of the answer has come."""
        self.used = False
        """Whether it carried an attempt before this one."""
        self._parser = httptools.HttpResponseParser(self)

    # What its owner asks of it.

    def open(self, attempt: "Attempt | None") -> None:
        """Connect: a task for each connection, none for a request."""
        data_path = self._pool.data_path
        self._attempt = attempt
        opening = data_path.loop.create_connection(lambda: self, self._pool.host, self._pool.port)
        self._opening = data_path.loop.create_task(opening)
        self._opening.add_done_callback(self._opened)
        data_path.wheel.watch(self, data_path.clock() + data_path.limits.connect_s)

    def carry(self, attempt: "Attempt") -> None:
        """Take the next attempt."""
        self._attempt = attempt
        self._head_complete = self._complete = self.answered = False
        self.headers = []
        attempt.send(self)

    def write(self, head: bytes, body: bytes, end: bytes) -> None:
        """Send a request."""
        assert self._transport is not None
        if len(body) <= _WORTH_COPYING_BYTES:
            self._transport.write(b"".join((head, body, end)))
        else:
            self._transport.writelines((head, body, end))

    def expect_by(self, deadline_s: float) -> None:
        """Something must come by then, else the attempt is told."""
        self._pool.data_path.wheel.watch(self, deadline_s)

    def pause(self) -> None:
        """The client takes no more for now."""
        self.deadline_s = NEVER_S
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """The client takes more again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once, whatever is under way; an engine stops its work for a client that leaves."""
        self._attempt = None
        self._pool.data_path.wheel.forget(self)
        if self._transport is not None:
            self._transport.abort()
        elif self._opening is not None:
            self._opening.cancel()

    def on_deadline(self, now_s: float) -> None:
        """It took too long to open, was silent for too long, or had nothing to do for long enough."""
        attempt = self._attempt
        opening = self._transport is None
        self.abort()
        if attempt is None:
            self._pool.drop(self)
        elif opening:
            attempt.engine_lost(self, UNREACHABLE)
        else:
            attempt.engine_silent()

    # What the loop tells it.

    def _opened(self, opening: "asyncio.Task[object]") -> None:
        self._opening = None
        if opening.cancelled() or opening.exception() is not None:
            self._lost(UNREACHABLE)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)
        self.deadline_s = NEVER_S
        if self._attempt is not None:
            self._attempt.send(self)
        else:
            self._pool.keep(self)

    def eof_received(self) -> None:
        """The engine sends no more, so nobody shall take this connection while it closes."""
        self._pool.drop(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._pool.drop(self)
        if self._attempt is not None and self._ends_by_closing():
            self._finish(b"")
        else:
            self._lost(CLOSED)

    def _ends_by_closing(self) -> bool:
        """Whether the answer said neither how long it is nor that it comes in chunks."""
        framing = (b"content-length", b"transfer-encoding")
        return self._head_complete and not any(name in framing for name, _ in self.headers)

    def _lost(self, how: str) -> None:
        attempt = self._attempt
        self._attempt = None
        self._pool.data_path.wheel.forget(self)
        if attempt is not None:
            attempt.engine_lost(self, how)

    def data_received(self, data: bytes) -> None:
        """The engine has sent something."""
        attempt = self._attempt
        if attempt is None:
            self._pool.drop(self)
            self.abort()  # An answer to nothing.
            return
        self.answered = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._reusable = False
            if not self._complete:
                self.abort()
                attempt.engine_lost(self, NOT_HTTP)
                return
        bodies = self._bodies
        if not bodies:
            body = b""
        elif len(bodies) == 1:
            body = bodies.pop()
        else:
            body = b"".join(bodies)
            bodies.clear()
        if self._complete:
            self._finish(body)
        elif body:
            attempt.relay(self, body, complete=False)

    def _finish(self, body: bytes) -> None:
        attempt = self._attempt
        assert attempt is not None
        self._attempt = None
        if self._reusable:
            self.used = True
            data_path = self._pool.data_path
            data_path.wheel.watch(self, data_path.clock() + data_path.limits.engine_idle_s)
            self._pool.keep(self)
        else:
            self.abort()
        attempt.relay(self, body, complete=True)

    # What the parser tells it.

    def on_message_begin(self) -> None:
        """A head begins; behind a complete answer it is one to nothing, and nobody may get its body."""
        if self._complete:
            raise ValueError("an answer to nothing")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the answer, or a trailer."""
        if not self._head_complete:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is complete."""
        status = self._parser.get_status_code()
        if self._complete:
            return
        if status < 200:
            self.headers.clear()  # Only a notice; the answer's own head follows.
            return
        self.status = status
        self._head_complete = True

    def on_message_complete(self) -> None:
        """The answer is complete, or only a notice before it."""
        if self._head_complete and not self._complete:
            self._complete = True
            self._reusable = self._parser.should_keep_alive()
