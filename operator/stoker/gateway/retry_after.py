"""How long a refused client should wait before it asks again.

A constant ``Retry-After`` brings every refused client back in the same second. We answer
with the time after which the queue ahead should have drained, spread over clients.

Rejected: exponential back-off kept by the server (state per client, and the client's
library already does it); the mean service time alone (wrong as soon as instances differ).
"""

import math
from dataclasses import dataclass

_LEAST_S = 1.0
_MOST_S = 120.0
_MEMORY_S = 30.0
"""Time constant of the drain rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """What the gateway knows about one service at the moment of the refusal."""

    queued: int
    """Requests that wait, this one not among them."""
    finished_per_s: float
    """Requests that left the instances per second, smoothed over 30 s."""
    next_instance_s: float | None
    """Expected seconds until a starting instance is Ready; None if none is starting."""
    max_wait_s: float = _MOST_S
    """Longest wait in the queue: all that wait now are gone by then, started or not."""


def retry_after_s(queue: QueueState, *, spread: float) -> float:
    """Seconds for the ``Retry-After`` header (RFC 9110, section 10.2.3) of a full queue.

    The queue drains in ``queued / finished_per_s`` seconds. A starting instance, or the bound on
    the wait, can only shorten that. ``spread`` in [0, 1) is drawn once per refusal and adds up to
    half again, so that refused clients do not return together.

    Example: 40 queued, 8 finished per second, nothing starting, spread 0.5
    -> 40 / 8 = 5 s, times 1.25 -> 6.25 s.
    """
    drained_s = queue.queued / queue.finished_per_s if queue.finished_per_s > 0 else _MOST_S
    drained_s = min(drained_s, queue.max_wait_s)
    if queue.next_instance_s is not None:
        drained_s = min(drained_s, queue.next_instance_s)
    return min(max(drained_s, _LEAST_S), _MOST_S) * (1 + spread / 2)


def until_instance_s(next_instance_s: float | None, *, spread: float) -> float:
    """Seconds for the ``Retry-After`` header where no instance is there to drain anything.

    The time that the next instance still needs, however long; it is known from earlier starts.
    Where nothing starts, the longest that we ever guess.

    Example: the next instance is Ready in 200 s, spread 0.5 -> 200 * 1.25 -> 250 s.
    """
    known_s = _MOST_S if next_instance_s is None else next_instance_s
    return max(known_s, _LEAST_S) * (1 + spread / 2)


class DrainRate:
    """How many requests leave the instances per second, lately."""

    __slots__ = ("_at_s", "_count", "_since_s")

    def __init__(self) -> None:
        self._since_s: float | None = None
        """When the first one left; before that nothing is known."""
        self._at_s = 0.0
        self._count = 0.0
        """Departures, each weighted by exp(-age / 30 s); as of `_at_s`."""

    def finished(self, now_s: float) -> None:
        """One request left an instance, for whatever reason: its slot is free."""
        if self._since_s is None:
            self._since_s = self._at_s = now_s
            return
        self._count = self._count * math.exp((self._at_s - now_s) / _MEMORY_S) + 1.0
        self._at_s = now_s

    def per_s(self, now_s: float) -> float:
        """Requests per second; 0 if not known.

        The weights of a constant rate r sum up to r * 30 s * (1 - exp(-t / 30 s)) in t seconds, so
        a young estimate is divided by what it could have reached.

        Example: the first leaves at 0 s, ten more by 10 s, one a second -> 1.02 a second.
        """
        if self._since_s is None or now_s <= self._since_s:
            return 0.0
        count = self._count * math.exp((self._at_s - now_s) / _MEMORY_S)
        return count / (_MEMORY_S * (1 - math.exp((self._since_s - now_s) / _MEMORY_S)))
