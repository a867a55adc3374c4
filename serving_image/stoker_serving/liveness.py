"""Is the engine stuck, or only busy?

Stuck means: requests run, and for a long time no token came. `/health` does not tell (G18): a stuck
engine may answer 200, and a busy one may not answer for many seconds. So only work counts: something
sent to a client, or a change in the engine's own counters of steps and tokens, which also move for
requests that do not stream and while a long prompt is computed in chunks.

The clock runs only while requests run, and only progress sets it back. So a client that gives up and
tries again does not hide a stuck engine, and a night without requests does not accuse one. With no
request running there is no reason to be slow: then not answering `/health` counts as standing still.
"""

from dataclasses import dataclass

_PER_REQUEST_S = 1.0
_LONGEST_TICK_S = 5.0
"""A longer time between two looks means that we were held up ourselves, which proves nothing."""

_COUNTERS = (
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:iteration_tokens_total_count",
    "vllm:kv_cache_usage_perc",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What can be seen of the engine at one moment."""

    at_s: float
    in_flight: int
    last_token_s: float
    """When a client last got something; 0 if never."""
    counters: tuple[str, ...] | None
    """The engine's own counters (`counters_of`); None if not asked, or no answer."""
    answers: bool
    """Whether the engine answered anything at all, with whatever status."""


def bound_s(stuck_s: float, in_flight: int) -> float:
    """Longest time without a token that is still normal.

    A step takes longer the more requests share it, so each request adds a second.

    Example: 120 s allowed for one request, 30 requests -> 149 s.
    """
    return stuck_s + _PER_REQUEST_S * max(in_flight - 1, 0)


def counters_of(metrics: str) -> tuple[str, ...]:
    """The lines of a Prometheus page that change when the engine works, and only then."""
    return tuple(line for line in metrics.splitlines() if line.startswith(_COUNTERS))


class Liveness:
    """Adds up the time for which the engine owed a token and gave none."""

    def __init__(self, *, stuck_s: float, now_s: float) -> None:
        self._stuck_s = stuck_s
        self._looked_s = now_s
        self._token_s = 0.0
        self._counters: tuple[str, ...] | None = None
        self._in_flight = 0
        self.stalled_s = 0.0

    @property
    def bound_s(self) -> float:
        """The bound at the load of the last look."""
        return bound_s(self._stuck_s, self._in_flight)

    @property
    def stuck(self) -> bool:
        """Whether the engine owes a token for longer than the bound."""
        return self.stalled_s > self.bound_s

    def look(self, look: Look) -> None:
        """Takes in what was seen."""
        passed_s = min(look.at_s - self._looked_s, _LONGEST_TICK_S)
        counted = look.counters is not None and look.counters != self._counters
        if look.last_token_s > self._token_s or counted:
            self.stalled_s = 0.0
        elif look.in_flight > 0 or not look.answers:
            self.stalled_s += passed_s
        self._looked_s = look.at_s
        self._token_s = look.last_token_s
        self._in_flight = look.in_flight
        if look.counters is not None:
            self._counters = look.counters
