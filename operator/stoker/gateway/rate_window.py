"""How much was used in the last minute, and when is there room for more?

Sixty slots of a second each and their sum: never more than the limit in any 60 s, to the second, for
the price of an addition. Rejected: a token bucket of a minute's size (lets twice the limit through in
one minute); a log of every request (grows with the limit).
"""

_SLOTS = 60


class RateWindow:
    """What was used in each of the last sixty seconds."""

    __slots__ = ("_second", "_slots", "used")

    def __init__(self) -> None:
        self._slots = [0] * _SLOTS
        self._second = 0
        """The second, on the monotonic clock, that the newest slot is for."""
        self.used = 0
        """In the last minute, as of the last call of `advance`."""

    def advance(self, now_s: float) -> None:
        """Forget what is a minute ago."""
        second = int(now_s)
        passed = second - self._second
        if passed <= 0:
            return
        if passed >= _SLOTS:
            self._slots = [0] * _SLOTS
            self.used = 0
        else:
            for gone in range(self._second + 1, second + 1):
                self.used -= self._slots[gone % _SLOTS]
                self._slots[gone % _SLOTS] = 0
        self._second = second

    def add(self, count: int, now_s: float) -> None:
        """Use this much now."""
        self.advance(now_s)
        self._slots[self._second % _SLOTS] += count
        self.used += count

    def correct(self, count: int, *, then_s: float, now_s: float) -> None:
        """What was used at `then_s` turned out to be this much more, or less if negative.

        It counts for the second it was used in. When that is a minute ago, more counts for now, as it
        was used since; less no longer matters.
        """
        self.advance(now_s)
        then = int(then_s)
        if then > self._second - _SLOTS:
            self._slots[then % _SLOTS] += count
            self.used += count
        elif count > 0:
            self.add(count, now_s)

    def wait_s(self, count: int, *, limit: int, now_s: float) -> float:
        """Seconds until this much more fits, which is at most the limit; 0 if it fits now.

        Example: limit 10, of which 4 were used at second 3 and 6 at second 50; at second 51 another 2
        fit when those of second 3 are a minute ago, at second 63: in 12 s.
        """
        self.advance(now_s)
        over = self.used + count - limit
        age = _SLOTS
        while over > 0:
            age -= 1
            over -= self._slots[(self._second - age) % _SLOTS]
        return 0.0 if age == _SLOTS else self._second - age + _SLOTS - now_s
