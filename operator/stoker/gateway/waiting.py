"""Which of those that wait starts next, who is last, and whose wait is over?

The highest priority first; within it those that an instance failed, then the workloads in turns, so
that one with a thousand requests does not hold up one with a single one; within a workload the first
to come. Every operation costs the same however many wait, so leaving is cheap for anyone anywhere.

Rejected: one heap of (priority, arrival) (no turns, and leaving is a search); deficit round robin by
tokens (the tokens of an answer are not known, and slots are what is short).
"""

import heapq
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Protocol

from stoker.gateway.errors import Rejection
from stoker.gateway.instances import Instance
from stoker.gateway.routing import Request

_LEAST_STALE = 64
"""Places of requests that left, beyond those that wait, before they are cleared away."""


class Waiter(Request, Protocol):
    """A request that wants an instance; equal only to itself.

    The queue calls `start` or `refuse` at most once for each `offer` or `requeue`, perhaps before
    that returns.
    """

    priority: int
    """The higher starts first."""
    workload: str
    tokens: int
    """Tokens that it will take at most, prompt and answer; 0 if not known. The queue lowers it to the
    context length."""
    deadline_s: float
    """When its wait is over, on the monotonic clock; set by the queue."""

    def start(self, instance: Instance) -> None:
        """Go to this instance; acquires it before it returns."""

    def refuse(self, rejection: Rejection) -> None:
        """Answer the client; the request is over."""


class _Place:
    """Where a waiter waits."""

    __slots__ = ("deadline_s", "lane", "past_half", "since_s", "tokens", "waiter")

    def __init__(self, waiter: Waiter, lane: "_Lane", now_s: float) -> None:
        self.waiter: Waiter | None = waiter
        """None once it waits no more."""
        self.lane = lane
        self.deadline_s = waiter.deadline_s
        self.tokens = waiter.tokens
        self.since_s = now_s
        self.past_half = False
        """Whether more than half of its wait is over; as far as `Level.past_half` counts it."""

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

    __slots__ = ("depths", "lanes", "past_half", "priority", "retries", "waiting")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.waiting = 0
        """How many they are, retries among them."""
        self.past_half = 0
        """How many of them have waited for more than half of their time; retries always count."""
        self.depths: list[int] = []
        """How many workloads have more than 0, 1, 2 ... waiters, retries aside; none is 0."""
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

    __slots__ = ("_deadlines", "_levels", "_places", "_young", "tokens")

    def __init__(self) -> None:
        self.tokens = 0
        """Tokens of all that wait, as far as they are known."""
        self._places: dict[Waiter, _Place] = {}
        self._levels: list[Level] = []
        """The highest priority first, none empty."""
        self._deadlines: list[_Place] = []
        """A heap; holds places of those that wait no more, until they are cleared away."""
        self._young: deque[_Place] = deque()
        """Those not past half of their wait, the first to come first; and places as in `_deadlines`."""

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

    def ahead_of(self, newcomer: Waiter) -> int:
        """How many will start before it, at least, if it comes now and nobody after it.

        All of a higher priority and the retries of its own; then, of each workload, as many as the
        newcomer's own has waiting, or one if that has none. A workload whose turn is sooner may have
        one more turn. Costs a look at each priority and a sum over the turns.

        Example: 2 of its own workload wait, and 1, 5 and 9 of three others -> 2 + 1 + 2 + 2 = 7.
        """
        ahead = 0
        for level in self._levels:
            if level.priority > newcomer.priority:
                ahead += level.waiting
            elif level.priority == newcomer.priority:
                turns = max(1, len(level.lanes.get(newcomer.workload, ())))
                ahead += len(level.retries) + sum(level.depths[:turns])
        return ahead

    def past_half(self, priority: int, now_s: float) -> int:
        """How many of this priority or a higher one have waited for more than half of their time."""
        while self._young:
            place = self._young[0]
            if place.waiter is not None:
                if (place.since_s + place.deadline_s) / 2 > now_s:
                    break
                place.past_half = True
                place.lane.level.past_half += 1
            self._young.popleft()
        return sum(level.past_half for level in self._levels if level.priority >= priority)

    def add(self, waiter: Waiter, now_s: float) -> None:
        """It comes last in its workload."""
        level = self._level(waiter.priority)
        lane = level.lanes.get(waiter.workload)
        if lane is None:
            lane = level.lanes[waiter.workload] = _Lane(level, waiter.workload)
        if len(lane) == len(level.depths):
            level.depths.append(0)
        level.depths[len(lane)] += 1
        self._young.append(self._enter(waiter, lane, now_s))

    def add_retry(self, waiter: Waiter, now_s: float) -> None:
        """It comes before all others of its priority that an instance has not failed."""
        level = self._level(waiter.priority)
        self._enter(waiter, level.retries, now_s).past_half = True
        level.past_half += 1

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
        level.waiting -= 1
        level.past_half -= place.past_half
        if lane is not level.retries:
            level.depths[len(lane)] -= 1
            if not level.depths[-1]:
                level.depths.pop()
            if not lane:
                del level.lanes[lane.workload]
        if not level.lanes and not level.retries:
            self._levels.remove(level)
        if len(self._deadlines) > 2 * len(self._places) + _LEAST_STALE:
            self._deadlines = list(self._places.values())
            heapq.heapify(self._deadlines)
        if len(self._young) > 2 * len(self._places) + _LEAST_STALE:
            self._young = deque(place for place in self._young if place.waiter is not None)

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

    def _enter(self, waiter: Waiter, lane: _Lane, now_s: float) -> _Place:
        place = _Place(waiter, lane, now_s)
        lane[waiter] = None
        self._places[waiter] = place
        self.tokens += place.tokens
        lane.level.waiting += 1
        heapq.heappush(self._deadlines, place)
        return place
