"""What do all connections of one gateway share?"""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.gateway.known_heads import KnownHeads
from stoker.gateway.outcome import RequestRecord
from stoker.gateway.pool import pool_of
from stoker.gateway.table import Changes, RoutingTable
from stoker.gateway.timers import TimerWheel
from stoker.gateway.traces import Tracing

if TYPE_CHECKING:
    from stoker.gateway.client_connection import ClientConnection
    from stoker.gateway.keys import KeyRing


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds in size and time; there is none on the time that a whole request takes."""

    body_bytes: int = 100 * 1000 * 1000
    """The longest body of a request."""
    head_s: float = 10.0
    """From the first byte of a request's head to its last."""
    body_silence_s: float = 30.0
    """Between two pieces of a request's body."""
    keep_alive_s: float = 75.0
    """How long a client's connection stays open without a request; longer than load balancers keep theirs."""
    stall_s: float = 300.0
    """How long a client may take nothing of its answer."""
    connect_s: float = 3.0
    """Until a connection to an instance is open."""
    answer_s: float = 3600.0
    """From sending a request to its answer where the answer comes as a whole, and so is silent until then."""
    silence_s: float = 300.0
    """Between two events of a stream, or two pieces of an answer."""
    engine_idle_s: float = 4.0
    """How long a used connection to an engine waits for the next request; vLLM closes it after 5 s."""
    retries: int = 2
    """How many more instances one request may be sent to."""


class DataPath:
    """The table of what is served, the bounds, and where the records go."""

    __slots__ = (
        "all_left",
        "clients",
        "clock",
        "draining",
        "heads",
        "keys",
        "limits",
        "loop",
        "on_end",
        "request_ids",
        "table",
        "tracing",
        "wheel",
    )

    def __init__(
        self,
        *,
        table: RoutingTable,
        limits: Limits,
        on_end: Callable[[RequestRecord], None],
        keys: "KeyRing | None" = None,
        tracing: Tracing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.table = table
        self.keys = keys
        """The API keys; None if clients need none."""
        self.tracing = tracing
        """Begins this gateway's part of a trace; None if it has none."""
        self.limits = limits
        self.on_end = on_end
        """Told of each request once, when it is over."""
        self.clock = clock
        self.wheel = TimerWheel(clock=clock, each_slot=self._expire_waits)
        self.loop = asyncio.get_running_loop()
        self.clients: set[ClientConnection] = set()
        """Open connections of clients."""
        self.all_left = asyncio.Event()
        """Set when the last client leaves while it drains."""
        self.draining = False
        """Whether connections close after their present request."""
        self.request_ids = RequestIds()
        self.heads = KnownHeads()

    def client_left(self, client: "ClientConnection") -> None:
        """A connection is closed."""
        self.clients.discard(client)
        if self.draining and not self.clients:
            self.all_left.set()

    def take_note(self, changes: Changes) -> None:
        """Instances came or went: connect to those that came, before the first request asks for it."""
        for instance in changes.new:
            pool_of(instance, self).open_ahead(instance.limit)
        for instance in changes.gone:
            pool_of(instance, self).close()

    def close(self) -> None:
        """No more requests come: close all that is left."""
        self.wheel.stop()
        for service in self.table.services.values():
            for instance in (*service.instances.values(), *service.departed.values()):
                pool_of(instance, self).close()

    def _expire_waits(self, now_s: float) -> None:
        for service in list(self.table.services.values()):
            if service.queue.queued:
                service.queue.expire(now_s)


class RequestIds:
    """Names for requests that came without one: unlike any other gateway's, and unlike each other."""

    __slots__ = ("_made", "_prefix")

    def __init__(self) -> None:
        self._prefix = os.urandom(12).hex().encode()
        self._made = 0

    def make(self) -> bytes:
        """The next one."""
        self._made += 1
        return b"%b%08x" % (self._prefix, self._made)
