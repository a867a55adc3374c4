"""Which of those that wait starts next, who is last, and whose wait is over?

The highest priority first; within it those that an instance failed, then the workloads in turns, so
that one with a thousand requests does not hold up one with a single one; within a workload the first
to come. Every operation costs the same however many wait, so leaving is cheap for anyone anywhere.

Rejected: one heap of (priority, arrival) (no turns, and leaving is a search); deficit round robin by
tokens (the tokens of an answer are not known, and slots are what is short).
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol

from stoker.gateway.errors import Rejection
from stoker.gateway.instances import Instance
from stoker.gateway.routing import Request

_LEAST_STALE = 64
"""Deadlines of requests that left, beyond those that wait, before they are cleared away."""


class Waiter(Request, Protocol):
    """A request that wants an instance; equal only to itself.

    The queue calls `start` or `refuse` at most once for each `offer` or `requeue`, perhaps before
    that returns.
    """

    priority: int
    """The higher starts first."""
    workload: str
    tokens: int
    """Tokens that it will take at most, prompt and answer; 0 if not known."""
    deadline_s: float
    """When its wait is over, on the monotonic clock; set by the queue."""

    def start(self, instance: Instance) -> None:
        """Go to this instance; acquires it before it returns."""

    def refuse(self, rejection: Rejection) -> None:
        """Answer the client; the request is over."""


class _Place:
    """Where a waiter waits."""

    __slots__ = ("deadline_s", "lane", "since_s", "tokens", "waiter")

    def __init__(self, waiter: Waiter, lane: "_Lane", now_s: float) -> None:
        self.waiter: Waiter | None = waiter
        """None once it waits no more."""
        self.lane = lane
        self.deadline_s = waiter.deadline_s
        self.tokens = waiter.tokens
        self.since_s = now_s

    def __lt__(self, other: "_Place") -> bool:
        return self.deadline_s < other.deadline_s


class _Lane(OrderedDict[Waiter, None]):
    """The waiters of one workload in one priority, the first to start first."""

    def __init__(self, level: "Level", workload: str) -> None:
        super().__init__()
        self.level = level
        self.workload = workload


class Level:
    """The waiters of one priority."""

    __slots__ = ("lanes", "priority", "retries")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.retries = _Lane(self, "")
        """Those that an instance failed."""
        self.lanes: OrderedDict[str, _Lane] = OrderedDict()
        """By workload, none empty; the one whose turn it is first."""

    def first(self) -> Waiter | None:
        """The one to start next, retries aside."""
        for lane in self.lanes.values():
            return next(iter(lane))
        return None


class Waiting:
    """All that wait for instances of one service."""

    __slots__ = ("_deadlines", "_levels", "_places", "tokens")

    def __init__(self) -> None:
        self.tokens = 0
        """Tokens of all that wait, as far as they are known."""
        self._places: dict[Waiter, _Place] = {}
        self._levels: list[Level] = []
        """The highest priority first, none empty."""
        self._deadlines: list[_Place] = []
        """A heap; holds places of those that wait no more, until they are cleared away."""

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, waiter: Waiter) -> bool:
        return waiter in self._places

    def __iter__(self) -> Iterator[Waiter]:
        return iter(self._places)

    def levels(self) -> list[Level]:
        """By priority, the highest first."""
        return list(self._levels)

    def oldest_since_s(self) -> float | None:
        """Since when the first of them waits; None if none waits."""
        return min((place.since_s for place in self._places.values()), default=None)

    def add(self, waiter: Waiter, now_s: float) -> None:
        """It comes last in its workload."""
        level = self._level(waiter.priority)
        lane = level.lanes.get(waiter.workload)
        if lane is None:
            lane = level.lanes[waiter.workload] = _Lane(level, waiter.workload)
        self._enter(waiter, lane, now_s)

    def add_retry(self, waiter: Waiter, now_s: float) -> None:
        """It comes before all others of its priority that an instance has not failed."""
        self._enter(waiter, self._level(waiter.priority).retries, now_s)

    def take(self, waiter: Waiter) -> None:
        """It starts: its workload's turn is over, whether more of it wait or not."""
        lane = self._places[waiter].lane
        if lane is not lane.level.retries:
            lane.level.lanes.move_to_end(lane.workload)
        self.remove(waiter)

    def remove(self, waiter: Waiter) -> None:
        """It waits no more."""
        place = self._places.pop(waiter)
        place.waiter = None
        self.tokens -= place.tokens
        lane = place.lane
        level = lane.level
        del lane[waiter]
        if not lane and lane is not level.retries:
            del level.lanes[lane.workload]
        if not level.lanes and not level.retries:
            self._levels.remove(level)
        if len(self._deadlines) > 2 * len(self._places) + _LEAST_STALE:
            self._deadlines = list(self._places.values())
            heapq.heapify(self._deadlines)

    def next_deadline_s(self) -> float | None:
        """When the next wait is over; None if none waits."""
        while self._deadlines and self._deadlines[0].waiter is None:
            heapq.heappop(self._deadlines)
        return self._deadlines[0].deadline_s if self._deadlines else None

    def next_over(self, now_s: float) -> Waiter | None:
        """One whose wait is over, the longest over first."""
        deadline_s = self.next_deadline_s()
        return self._deadlines[0].waiter if deadline_s is not None and deadline_s <= now_s else None

    def least_deserving(self, newcomer: Waiter) -> Waiter | None:
        """Who should make place for the newcomer; None if nobody should.

        The newest of the lowest priority, there of the workload with the most that wait. Of the
        newcomer's own priority only if that workload then still has as many as the newcomer's.
        """
        for level in reversed(self._levels):
            if level.priority > newcomer.priority:
                return None
            if not level.lanes:
                continue
            longest = max(level.lanes.values(), key=len)
            if level.priority == newcomer.priority:
                own = level.lanes.get(newcomer.workload, ())
                if len(longest) <= len(own) + 1:
                    return None
            return next(reversed(longest))
        return None

    def _level(self, priority: int) -> Level:
        at = 0
        for level in self._levels:
            if level.priority == priority:
                return level
            if level.priority < priority:
                break
            at += 1
        self._levels.insert(at, Level(priority))
        return self._levels[at]

    def _enter(self, waiter: Waiter, lane: _Lane, now_s: float) -> None:
        place = _Place(waiter, lane, now_s)
        lane[waiter] = None
        self._places[waiter] = place
        self.tokens += place.tokens
        heapq.heappush(self._deadlines, place)
