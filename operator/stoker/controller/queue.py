"""Which service is to be reconciled next.

The contract of controller-runtime's work queue: a key waits once however often it is added; a key
that is being worked on is never handed out a second time, and runs again if it was added meanwhile;
a key that failed comes back after a pause that doubles. A change that arrives during such a pause
ends it: the person may just have repaired what was wrong.

`take` and `add*` are plain functions of the clock that was passed in; only `get` waits.
"""

import asyncio
import heapq
from collections.abc import Callable
from typing import NamedTuple

_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 300.0


class Key(NamedTuple):
    """Which `InferenceService`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class WorkQueue:
    """Keys that wait, keys that are being worked on, keys for later."""

    def __init__(self, *, clock: Callable[[], float], spread: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds; `spread` draws from [0, 1) for the jitter."""
        self._clock = clock
        self._spread = spread
        self._waiting: dict[Key, float] = {}
        """Since when each key waits; a dict keeps the order of arrival."""
        self._working: dict[Key, float] = {}
        """Since when each key is being worked on."""
        self._dirty: set[Key] = set()
        """Keys added while they were being worked on."""
        self._due: dict[Key, float] = {}
        """When each later key is due; `_later` may hold older entries, which no longer count."""
        self._later: list[tuple[float, Key]] = []
        self._failures: dict[Key, int] = {}
        self._changed = asyncio.Event()
        self._closed = False

    def add(self, key: Key) -> None:
        """Have the key looked at as soon as a worker is free."""
        if key in self._working:
            self._dirty.add(key)
        else:
            self._waiting.setdefault(key, self._clock())
            self._changed.set()

    def add_after(self, key: Key, delay_s: float) -> None:
        """Have the key looked at in `delay_s` at the latest; the earlier of two times counts."""
        due_s = self._clock() + delay_s
        if due_s < self._due.get(key, float("inf")):
            self._due[key] = due_s
            heapq.heappush(self._later, (due_s, key))
            self._changed.set()

    def add_failed(self, key: Key, *, least_s: float = 0.0) -> float:
        """Have the key looked at after its back-off, and say how long that is.

        0.5 s, doubled with each failure up to 5 min, and up to a quarter more by chance.
        Example: the fourth failure in a row, spread 0 -> 0.5 * 2**3 = 4 s.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # The exponent is bounded so that a key that failed for weeks does not overflow a float.
        backoff_s = min(_FIRST_BACKOFF_S * 2.0 ** min(failures, 16), _LONGEST_BACKOFF_S)
        delay_s = max(backoff_s, least_s) * (1 + self._spread() / 4)
        self.add_after(key, delay_s)
        return delay_s

    def succeeded(self, key: Key) -> None:
        """Forget the failures of a key, so that its next back-off starts small."""
        self._failures.pop(key, None)

    def take(self) -> Key | None:
        """The key that waits longest, now being worked on; None if none is to be worked on now."""
        now_s = self._clock()
        while self._later and self._later[0][0] <= now_s:
            due_s, key = heapq.heappop(self._later)
            if self._due.get(key) == due_s:
                del self._due[key]
                self.add(key)
        if not self._waiting:
            return None
        key = next(iter(self._waiting))
        del self._waiting[key]
        # What was to be looked at later is looked at now.
        self._due.pop(key, None)
        self._working[key] = now_s
        return key

    def done(self, key: Key) -> None:
        """The work on a key has ended, however it went; every taken key must come back here."""
        del self._working[key]
        if key in self._dirty:
            self._dirty.remove(key)
            self.add(key)

    async def get(self) -> Key | None:
        """Wait for a key to work on; None once the queue is closed."""
        while not self._closed:
            if (key := self.take()) is not None:
                return key
            self._changed.clear()
            try:
                async with asyncio.timeout(self._next_due_s()):
                    await self._changed.wait()
            except TimeoutError:
                continue
        return None

    def close(self) -> None:
        """Hand out nothing more; what waits is found again by whoever leads next."""
        self._closed = True
        self._changed.set()

    def _next_due_s(self) -> float | None:
        return max(0.0, self._later[0][0] - self._clock()) if self._later else None

    @property
    def waiting(self) -> int:
        """Keys that wait for a worker."""
        return len(self._waiting)

    @property
    def working(self) -> int:
        """Keys that are being worked on."""
        return len(self._working)

    def oldest_waiting_s(self) -> float:
        """How long the first key has been waiting, in seconds; 0 if none waits."""
        return self._clock() - min(self._waiting.values()) if self._waiting else 0.0

    def longest_working_s(self) -> float:
        """How long the slowest work has been going on, in seconds; 0 if none is."""
        return self._clock() - min(self._working.values()) if self._working else 0.0
