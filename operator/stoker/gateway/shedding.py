"""Would a request that comes now wait in vain?

A client that is told at once can go elsewhere; one that is told after the whole wait has lost it, and
has kept a place from nobody but itself. So a request is refused on arrival when those before it, in
its own order, need longer to start than it may wait. Starts cannot be faster than slots become free.

The pace is that of the last whole turn: the time in which as many requests left as there are slots.
Shorter looks mislead: requests that began together end together, so that between two such ends
nothing seems to move. It is measured only while requests wait, as otherwise it says how many are
asked and not how many could be served, and begins anew whenever slots are added.

With 16 departures in a turn or more, a pace that is half the true one has a chance below 1 in 1,000,
were they as irregular as a Poisson process: P(at most 15 where 32 are expected) = 0.0007. So whoever
is refused would have waited longer than half of the bound, with that confidence.

Rejected: the drain rate of the last 30 s (`retry_after.DrainRate`: it fades between the ends of long
answers); a controlled delay as CoDel has it (Nichols and Jacobson, 2012: drops those that have
already waited); a higher bound in place of evidence (whoever gets in by it waits in vain).
"""

from collections.abc import Callable

_LEAST_TURN = 16
"""Departures in a turn, at least."""
_AGAIN_SHARE = 0.9
"""Once refused, requests are taken again when the wait has come down to this share of the bound."""


class Pace:
    """How long a slot takes to become free, while requests wait for one."""

    __slots__ = ("_begun_s", "_each_s", "_left", "_seen", "_slots", "_turn")

    def __init__(self, slots: Callable[[float], int]) -> None:
        """`slots` counts the requests that the usable instances take at once, at a time."""
        self._slots = slots
        self._seen = 0
        """Slots when they were last counted."""
        self._begun_s: float | None = None
        """When the present turn began; None before the first departure."""
        self._turn = _LEAST_TURN
        """Departures that make the present turn whole."""
        self._left = 0
        """Departures in the present turn."""
        self._each_s: float | None = None
        """Seconds for each departure in the last whole turn; None before there was one."""

    def forget(self) -> None:
        """What was seen says nothing about what comes: slots were added, or one had nobody to take it."""
        self._begun_s = self._each_s = None

    def left(self, now_s: float) -> None:
        """A request left its instance while others wait."""
        if self._begun_s is not None:
            self._left += 1
            if self._left < self._turn:
                return
        if not self._has_grown(now_s) and self._begun_s is not None:
            self._each_s = (now_s - self._begun_s) / self._turn
        self._begun_s = now_s
        self._turn = max(_LEAST_TURN, self._seen)
        self._left = 0

    def each_s(self, now_s: float) -> float | None:
        """Seconds for each departure, or more if the present turn is overdue; None if not known.

        Example: 16 slots, the last turn took 8 s -> 0.5 s; the present one is not whole after 12 s
        -> 0.75 s.
        """
        if self._begun_s is None or self._each_s is None or self._has_grown(now_s):
            return None
        return max(self._each_s, (now_s - self._begun_s) / self._turn)

    def _has_grown(self, now_s: float) -> bool:
        slots, before = self._slots(now_s), self._seen
        self._seen = slots
        if slots > before:
            self.forget()
        return slots > before


class Shedding:
    """Whether newcomers are refused, with a memory so that it does not change with each of them."""

    __slots__ = ("_refuses",)

    def __init__(self) -> None:
        self._refuses = False

    def refuses(self, *, ahead: int, past_half: int, queued: int, each_s: float, max_wait_s: float) -> bool:
        """Whether a newcomer with so many before it is refused.

        `past_half` of them, or of their peers, have waited for more than half of the bound and may be
        gone before they start, so that the newcomer moves up: the others alone must need more than
        half of the bound. Where each is served in time, no more are past half than start within half
        the bound, and this changes nothing; it counts after a slump, when many wait in vain already.

        Example: a slot becomes free every 0.5 s, the bound is 30 s: with 59 ahead the newcomer starts
        with the 60th departure, after 30 s, and waits; with 60 ahead it is refused, unless more than
        30 of those are past half. From then on it takes 53 ahead, 27 s, to be let in.
        """
        if (queued + 1) * each_s <= _AGAIN_SHARE * max_wait_s:
            self._refuses = False
        bound_s = max_wait_s * _AGAIN_SHARE if self._refuses else max_wait_s
        if (ahead + 1) * each_s <= bound_s or (ahead - past_half + 1) * each_s <= max_wait_s / 2:
            return False
        self._refuses = True
        return True
