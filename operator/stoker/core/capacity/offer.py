"""What would one choice of hardware give, and what would it cost?

Memory, speed, replicas and money of a model on one kind of accelerator, put together. `stoker plan` shows
one offer; advice compares many.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from stoker.core.capacity.architecture import ModelConfig
from stoker.core.capacity.catalog import Accelerator, Price
from stoker.core.capacity.engine_settings import EngineSettings
from stoker.core.capacity.estimate import CapacityEstimate, estimate
from stoker.core.capacity.form import Form, in_form, weights_in_form
from stoker.core.capacity.load import Load, RequestShape, Staffing, at_rate, each, staffing
from stoker.core.capacity.memory import GIB
from stoker.core.capacity.parameters import active_parameters
from stoker.core.capacity.throughput import Range, Throughput, Workload, throughput
from stoker.core.capacity.weights import StoredWeights, WeightsSize

_SECONDS_PER_HOUR = 3600
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be served, whatever it runs on."""

    model: ModelConfig
    stored: StoredWeights | None
    """What the files hold; None if only the config is known."""
    shape: RequestShape
    load: Load | None
    inter_token_s: float | None = None
    """Longest time from one token to the next that is accepted; None if any is."""
    most_requests: int | None = None
    """Requests that one instance may work on at once; None if only memory and engine limit them."""
    max_replicas: int | None = None
    """Most replicas that are allowed (`scaling.maxReplicas`); None for any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How fast one instance is with so many requests at once."""

    concurrency: int
    throughput: Throughput


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What it costs, in the currency of the price."""

    price: Price
    per_hour: Range
    """All replicas for the load; one instance without a load."""
    per_million_output_tokens: Range
    """At the load, idle slots included; with all slots at work without a load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One choice of hardware."""

    accelerator: Accelerator
    settings: EngineSettings
    form: Form
    weights: WeightsSize
    estimate: CapacityEstimate
    held: int
    """Requests of the given shape that memory, engine and user let run at once; 0 if it does not fit."""
    slots: int
    """Those of them that get their tokens as soon as is wanted; 0 if not even one does."""
    alone: Speed | None
    """Of a single request; None if there is no slot."""
    full: Speed | None
    """With all slots at work."""
    at_load: Speed | None
    """With the requests that the load keeps at work in each of the likely replicas."""
    staffing: Staffing | None
    """Replicas for the load; None without a load or a slot."""
    cost: Cost | None
    """None if no price is known, or there is no slot."""


def offer(wanted: Wanted, *, accelerator: Accelerator, settings: EngineSettings, form: Form) -> Offer:
    """The offer of one instance on `settings.ranks` accelerators."""
    model = in_form(wanted.model, form)
    weights = weights_in_form(wanted.model, form, stored=wanted.stored)
    capacity = estimate(model, weights, accelerator=accelerator, settings=settings)
    active = active_parameters(model)

    def speed(concurrency: int) -> Speed:
        return Speed(
            concurrency=concurrency,
            throughput=throughput(
                model,
                weight_bytes=weights.total,
                expert_bytes=weights.experts,
                active_parameters=active,
                accelerator=accelerator,
                settings=settings,
                workload=Workload(
                    requests=concurrency,
                    prompt_tokens=wanted.shape.prompt_tokens,
                    output_tokens=wanted.shape.output_tokens,
                ),
            ),
        )

    def too_slow(concurrency: int) -> bool:
        limit_s = wanted.inter_token_s
        return limit_s is not None and speed(concurrency).throughput.inter_token_latency_s.likely > limit_s

    held = _held(wanted, capacity)
    slots = bisect_left(range(1, held + 1), True, key=too_slow)
    alone = speed(1) if held else None
    full = speed(slots) if slots else None
    needed = None
    if wanted.load is not None and full is not None:
        needed = staffing(wanted.load, slots=slots, output_tokens_per_s=full.throughput.output_tokens_per_s)
    return Offer(
        accelerator=accelerator,
        settings=settings,
        form=form,
        weights=weights,
        estimate=capacity,
        held=held,
        slots=slots,
        alone=alone,
        full=full,
        at_load=_at_load(wanted.load, needed, speed),
        staffing=needed,
        cost=_cost(accelerator.price, full, needed, wanted, ranks=settings.ranks),
    )


def _held(wanted: Wanted, capacity: CapacityEstimate) -> int:
    """Requests of the shape that memory, the engine and the user let run at once."""
    if not capacity.fits:
        return 0
    held = capacity.requests_at(wanted.shape.tokens)
    return min(held, wanted.most_requests or held)


def _at_load(load: Load | None, needed: Staffing | None, speed: Callable[[int], Speed]) -> Speed | None:
    """The smallest batch whose output keeps up with one replica's share of the load.

    More requests at once make more tokens per second, so at this batch as much comes as goes: Little's law,
    solved for the batch.
    """
    if load is None or needed is None:
        return None
    share = load.output_tokens_per_s / needed.replicas.likely

    def keeps_up(concurrency: int) -> bool:
        return speed(concurrency).throughput.output_tokens_per_s.likely >= share

    return speed(1 + bisect_left(range(1, needed.slots), True, key=keeps_up))


def _cost(
    price: Price | None, full: Speed | None, needed: Staffing | None, wanted: Wanted, *, ranks: int
) -> Cost | None:
    """Money per hour and per million output tokens.

    Example: three to four replicas of one accelerator at 2.00 an hour are 6.00 to 8.00 an hour; for a load
    of 1,000 output tokens per second, 3.6 million an hour, that is 1.67 to 2.22 per million.
    """
    if price is None or full is None:
        return None
    instance = price.per_hour * ranks
    if needed is None or wanted.load is None:
        return Cost(
            price=price,
            per_hour=Range(low=instance, likely=instance, high=instance),
            per_million_output_tokens=at_rate(
                instance * _MILLION / _SECONDS_PER_HOUR, full.throughput.output_tokens_per_s
            ),
        )
    per_hour = each(needed.replicas, lambda replicas: replicas * instance)
    made = wanted.load.output_tokens_per_s * _SECONDS_PER_HOUR
    return Cost(
        price=price,
        per_hour=per_hour,
        per_million_output_tokens=each(per_hour, lambda money: money / made * _MILLION),
    )


def problem(made: Offer, wanted: Wanted) -> str | None:
    """Why an offer is no use, in a sentence; None if it holds what is wanted."""
    capacity = made.estimate
    if not capacity.fits:
        return _lacking(capacity)
    if made.alone is not None and made.slots == 0:
        limit_s = wanted.inter_token_s or 0.0
        alone_s = made.alone.throughput.inter_token_latency_s.likely
        return f"too slow: {alone_s:.2g} s for a token even alone, and {limit_s:.2g} s are asked for"
    if made.staffing is not None and wanted.max_replicas is not None:
        replicas = made.staffing.replicas.likely
        if replicas > wanted.max_replicas:
            return (
                f"the load needs {replicas:,} replicas, and `scaling.maxReplicas` is {wanted.max_replicas:,}"
            )
    return None


def _lacking(capacity: CapacityEstimate) -> str:
    """Example: 67.7 + 4.8 + .1 GiB where 71.3 may be used -> `1.3 GiB too little for weights ...`."""
    budget, length = capacity.budget, capacity.context_length
    if budget.kv > capacity.layout.block_bytes and not capacity.cache.blocks:
        return capacity.notes[0].rstrip(".")  # the engine would refuse, whatever the memory
    if budget.kv <= 0:
        weights = f"weights ({budget.weights / GIB:.1f} GiB)"
        return f"{-budget.kv / GIB:.1f} GiB too little for {weights} and what the engine needs beside them"
    needed = capacity.layout.bytes_per_request(length)
    there = "left" if capacity.settings.kv_cache_memory_bytes is None else "set"
    return (
        f"one request of {length:,} tokens needs {needed / GIB:.1f} GiB of KV cache, and "
        f"{budget.kv / GIB:.1f} GiB are {there}; {capacity.max_context_length:,} tokens would fit"
    )
