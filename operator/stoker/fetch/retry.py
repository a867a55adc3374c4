"""How often do we ask again, and how long do we wait before?

Exponential back-off with full jitter: many pods that lost the same source at the same second must
not come back at the same second. What the source asks for in `Retry-After` is the least wait.
"""

import asyncio
import random
from dataclasses import dataclass

from stoker.api.reasons import TerminationClass
from stoker.fetch.errors import FetchError, Interrupted


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Bounds for asking again."""

    attempts: int = 6
    """Failures in a row, without progress between them, before we give up."""
    first_wait_s: float = 1.0
    """Longest wait after the first failure; it doubles with each further one."""
    most_wait_s: float = 30.0


def wait_s(retry: Retry, *, failures: int, asked_s: float | None, chance: float) -> float:
    """Seconds to wait after the `failures`-th failure in a row; `chance` in [0, 1) spreads clients.

    Example: first wait 1 s, third failure, nothing asked, chance 0.5 -> half of 1 * 2 * 2 = 2 s.
    """
    longest_s = min(retry.first_wait_s * 2.0 ** (failures - 1), retry.most_wait_s)
    return max(longest_s * chance, asked_s or 0.0)


class Patience:
    """Failures in a row of one thing that we ask for."""

    def __init__(self, retry: Retry, *, what: str) -> None:
        self._retry = retry
        self._what = what
        self._failures = 0

    def renew(self) -> None:
        """Forget the failures so far: something came through."""
        self._failures = 0

    async def after(self, interrupted: Interrupted) -> None:
        """Wait before the next attempt; raises `WeightsUnreachable` if this failure was the last."""
        self._failures += 1
        if self._failures >= self._retry.attempts:
            raise FetchError(
                TerminationClass.WEIGHTS_UNREACHABLE,
                f"{self._what} could not be fetched in {self._failures} attempts: {interrupted}",
            ) from interrupted
        await asyncio.sleep(
            wait_s(
                self._retry,
                failures=self._failures,
                asked_s=interrupted.wait_s,
                chance=random.random(),
            )
        )
