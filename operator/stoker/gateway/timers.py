"""Whose time is up?

A gateway with 8,000 streams has 16,000 connections with a bound on something. One timer for all of
them turns a wheel of slots, a quarter of a second each: putting a bound off is one assignment, and a
turn looks only at what is due. A bound is kept late by up to one slot, never early.

Rejected: a timer of the event loop for each request (made and cancelled for each request, a heap
operation each time); one pass over all connections (a stall of every stream once a second).
"""

import asyncio
import math
from collections.abc import Callable

_SLOT_S = 0.25
NEVER_S = math.inf


class Timed:
    """Something that has a bound in time; `deadline_s` may be put off by assigning to it."""

    __slots__ = ("_looked_at_s", "_slot", "deadline_s")

    def __init__(self) -> None:
        self.deadline_s = NEVER_S
        """When its time is up, on the monotonic clock."""
        self._slot = 0
        """The slot of the wheel that holds it; 0 for none."""
        self._looked_at_s = math.inf
        """A bound from then on needs no sooner slot than the one that holds it."""

    def on_deadline(self, now_s: float) -> None:
        """Its time is up."""
        raise NotImplementedError


class TimerWheel:
    """All bounds in time of one gateway."""

    __slots__ = ("_clock", "_each_slot", "_handle", "_loop", "_slots", "_turned")

    def __init__(self, *, clock: Callable[[], float], each_slot: Callable[[float], None]) -> None:
        self._clock = clock
        self._each_slot = each_slot
        """Called with the time after every slot."""
        self._slots: dict[int, set[Timed]] = {}
        self._turned = int(clock() / _SLOT_S)
        """The last slot that was looked at."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handle: asyncio.TimerHandle | None = None

    def watch(self, timed: Timed, deadline_s: float) -> None:
        """Set its bound, which may be sooner than the one it had."""
        timed.deadline_s = deadline_s
        if deadline_s >= timed._looked_at_s:
            return  # When its slot is due, it moves on to its new one.
        slot = max(int(deadline_s / _SLOT_S), self._turned) + 1
        held = timed._slot
        if held:
            if held <= slot:
                return
            self._take_out(timed)
        self._put(timed, slot)

    def forget(self, timed: Timed) -> None:
        """It is gone: keep no reference to it."""
        timed.deadline_s = NEVER_S
        if timed._slot in self._slots:  # It is not while that slot is being looked at.
            self._take_out(timed)
        timed._slot = 0
        timed._looked_at_s = math.inf

    def _take_out(self, timed: Timed) -> None:
        held = self._slots[timed._slot]
        held.discard(timed)
        if not held:
            # With a bound of an hour, 14,400 slots would stay that each had something for a moment.
            del self._slots[timed._slot]

    def _put(self, timed: Timed, slot: int) -> None:
        timed._slot = slot
        timed._looked_at_s = (slot - 1) * _SLOT_S
        held = self._slots.get(slot)
        if held is None:
            self._slots[slot] = {timed}
        else:
            held.add(timed)

    def turn(self, now_s: float) -> None:
        """Call `on_deadline` of everything whose time is up."""
        last = int(now_s / _SLOT_S)
        while self._turned < last:
            self._turned += 1
            for timed in self._slots.pop(self._turned, ()):
                if timed._slot != self._turned:
                    continue  # Forgotten by another of this slot.
                timed._slot = 0
                timed._looked_at_s = math.inf
                if timed.deadline_s <= now_s:
                    timed.on_deadline(now_s)
                elif timed.deadline_s != NEVER_S:
                    self._put(timed, max(int(timed.deadline_s / _SLOT_S), self._turned) + 1)
        self._each_slot(now_s)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Turn from now on."""
        self._loop = loop
        self._tick()

    def stop(self) -> None:
        """Turn no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _tick(self) -> None:
        assert self._loop is not None
        # Before the work: an error in it ends one turn, not all of them.
        self._handle = self._loop.call_later(_SLOT_S, self._tick)
        self.turn(self._clock())
