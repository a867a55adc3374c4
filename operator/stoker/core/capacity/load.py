"""How many replicas does a load need?

Little's law gives the work: arrivals per second x seconds that a request holds its slot. Erlang's
formula (`queueing.py`) gives the slots that keep the wait within the objective. The service time comes
from the estimated speed of a full batch, so it is a range, and so are the replicas.

Rejected: the service time at the batch that the load will really keep busy. It is shorter, but a pool
sized by it has no way back once a burst has filled its batches.
"""

from collections.abc import Callable
from dataclasses import dataclass

from stoker.core.capacity.queueing import Objective, least_stable_replicas, replicas_for
from stoker.core.capacity.throughput import Range


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestShape:
    """A typical request."""

    prompt_tokens: int
    output_tokens: int

    @property
    def tokens(self) -> int:
        """Tokens in its KV cache when it ends; what a slot is counted by, so that none is preempted."""
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What users ask of a service."""

    requests_per_s: float
    shape: RequestShape
    objective: Objective

    @property
    def output_tokens_per_s(self) -> float:
        """Tokens that all replicas make each second to keep up."""
        return self.requests_per_s * self.shape.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Staffing:
    """Replicas for a load, and the numbers behind them."""

    slots: int
    """Requests that one instance works on at once."""
    service_time_s: Range
    """Seconds that a request holds its slot when all slots are taken."""
    offered: Range
    """Slots at work on average, over all replicas."""
    least_stable: Range
    """Replicas below which the queue grows without end."""
    replicas: Range
    """Fewest replicas that hold the objective."""
    utilization: float
    """Share of the slots at work with the likely number of replicas at the likely speed."""


def staffing(load: Load, *, slots: int, output_tokens_per_s: Range) -> Staffing:
    """Replicas of `slots` slots that make `output_tokens_per_s` with all of them at work.

    Example: 10 requests per second of 200 tokens; an instance with 64 slots makes 640 tokens per second,
    so a request holds its slot for 64 x 200 / 640 = 20 s. 200 slots are at work: four replicas hold
    "99 % within 2 s" (78 % of 256 slots), and three (192 slots) would never catch up.
    """
    service_time_s = at_rate(slots * load.shape.output_tokens, output_tokens_per_s)
    offered = each(service_time_s, lambda seconds: load.requests_per_s * seconds)
    replicas = each(
        service_time_s,
        lambda seconds: replicas_for(
            arrivals_per_s=load.requests_per_s,
            service_time_s=seconds,
            slots=slots,
            objective=load.objective,
        ),
    )
    return Staffing(
        slots=slots,
        service_time_s=service_time_s,
        offered=offered,
        least_stable=each(offered, lambda work: least_stable_replicas(offered=work, slots=slots)),
        replicas=replicas,
        utilization=offered.likely / (replicas.likely * slots),
    )


def at_rate(amount: float, rate: Range) -> Range:
    """What an amount takes at an estimated rate; the highest rate takes least."""
    return Range(low=amount / rate.high, likely=amount / rate.likely, high=amount / rate.low)


def each(estimate: Range, change: Callable[[float], float]) -> Range:
    """A range after a change that keeps the order of numbers."""
    return Range(low=change(estimate.low), likely=change(estimate.likely), high=change(estimate.high))
