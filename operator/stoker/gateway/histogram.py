"""How are the times and sizes of requests spread?

A histogram is a list of counts under fixed upper bounds, so that one more value costs a search in
the bounds and an addition (0.3 us), and histograms of several replicas or minutes can be summed.
The bounds are vLLM's where it has a histogram of the same meaning, so that one query shows the
gateway's time beside the engine's; vLLM's begin with what OpenTelemetry advises for `gen_ai.server.*`.

Rejected: prometheus_client (ten times the cost for each value, a lock for each, and it renders all
in one go); quantiles over a window (they can't be summed over replicas).
"""

from bisect import bisect_left
from typing import Final

TIME_TO_FIRST_TOKEN_S: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
"""As `vllm:time_to_first_token_seconds`; up to 10 s as `gen_ai.server.time_to_first_token`."""
TIME_PER_OUTPUT_TOKEN_S: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
"""As `vllm:request_time_per_output_token_seconds`; up to 2.5 s as `gen_ai.server.time_per_output_token`."""
REQUEST_S: Final = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0),
    *(30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
"""As `vllm:e2e_request_latency_seconds`."""
QUEUE_S: Final = (
    *(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0),
)
"""Our own: vLLM's begin at 0.3 s, but here most requests wait for less than a millisecond, and
objectives ("99 % start within 2 s") are set at whole seconds."""
TOKENS: Final = tuple(float(4**n) for n in range(11))
"""1 to 1,048,576 in powers of 4, as OpenTelemetry advises for `gen_ai.client.token.usage`."""


class Histogram:
    """Counts of values under upper bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        """Upper bounds, each included in its bucket, ascending."""
        self.counts = [0] * (len(bounds) + 1)
        """Values in each bucket alone; the last is for those above all bounds."""
        self.total = 0.0
        """Sum of all values."""

    def observe(self, value: float) -> None:
        """Count a value in.

        Example: bounds 1 and 2, values 1, 1.5 and 7 -> counts 1, 1, 1.
        """
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)
