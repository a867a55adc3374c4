"""The answer as plain data, for `-o json` and `-o yaml`.

Keys are for programs and stay; sizes are GiB for each accelerator, times are seconds, and an estimate is
`low`, `likely` and `high`. What is not known is null, never 0.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.core.capacity.memory import GIB
from stoker.core.capacity.offer import Cost, Offer, Speed
from stoker.core.capacity.throughput import Range
from stoker.core.model import JsonObject

if TYPE_CHECKING:
    from stoker.core.capacity.advise import Choice, Rejected

LENGTHS = (2048, 8192, 32_768, 131_072)
"""Context lengths that every answer tells the concurrency of."""


def answer(offer: Offer, *, model: str, notes: Sequence[str]) -> JsonObject:
    """One offer."""
    capacity = offer.estimate
    return {
        "model": model,
        "accelerator": offer.accelerator.name,
        "count": offer.settings.ranks,
        "quantization": offer.form.argument,
        "fits": capacity.fits,
        "context_length": capacity.context_length,
        "requests": capacity.requests,
        "max_context_length": capacity.max_context_length,
        "concurrency": {
            str(length): round(capacity.concurrency_at(length), 2) for length in shown_lengths(offer)
        },
        "memory": _memory(offer),
        "kv": {
            "bytes_per_token": capacity.cache.bytes_per_token,
            "block_size": capacity.cache.block_size,
            "blocks": capacity.cache.blocks,
            "tokens": capacity.kv_cache_tokens,
        },
        "speed": {
            name: _speed(speed)
            for name, speed in (("alone", offer.alone), ("full", offer.full), ("at_load", offer.at_load))
            if speed is not None
        },
        "slots": offer.slots,
        **_staffing(offer),
        "cost": _cost(offer.cost),
        "notes": list(notes),
    }


def shown_lengths(offer: Offer) -> list[int]:
    """The usual lengths, and the one that was asked for."""
    return sorted({*LENGTHS, offer.estimate.context_length})


def choice_answer(choice: "Choice") -> JsonObject:
    """One row of an advice."""
    offer = choice.offer
    return {
        **_which(choice),
        "requests": offer.estimate.requests,
        "slots": offer.slots,
        "max_context_length": offer.estimate.max_context_length,
        "speed": _speed(offer.full) if offer.full else None,
        **_staffing(offer),
        "cost": _cost(offer.cost),
        "needs_checkpoint": choice.form.needs_checkpoint,
    }


def rejected_answer(rejected: "Rejected") -> JsonObject:
    """Hardware that does not hold what is wanted, and why."""
    return {**_which(rejected), "reason": rejected.reason}


def _which(choice: "Choice | Rejected") -> JsonObject:
    return {
        "accelerator": choice.accelerator.name,
        "count": choice.count,
        "quantization": choice.form.argument,
    }


def _memory(offer: Offer) -> JsonObject:
    budget = offer.estimate.budget
    parts = ("visible", "weights", "non_torch", "activation", "cuda_graphs", "reserve", "kv")
    return {part: round(getattr(budget, part) / GIB, 3) for part in parts}


def _speed(speed: Speed) -> JsonObject:
    numbers = speed.throughput
    return {
        "concurrency": speed.concurrency,
        "output_tokens_per_s": _range(numbers.output_tokens_per_s),
        "time_to_first_token_s": _range(numbers.time_to_first_token_s),
        "inter_token_latency_s": _range(numbers.inter_token_latency_s),
        "why": numbers.why,
    }


def _staffing(offer: Offer) -> JsonObject:
    needed = offer.staffing
    if needed is None:
        return {"replicas": None}
    return {
        "replicas": needed.replicas.likely,
        "replicas_range": _range(needed.replicas),
        "least_stable_replicas": _range(needed.least_stable),
        "service_time_s": _range(needed.service_time_s),
        "utilization": round(needed.utilization, 3),
    }


def _cost(cost: Cost | None) -> JsonObject | None:
    if cost is None:
        return None
    return {
        "currency": cost.price.currency,
        "price_per_accelerator_hour": cost.price.per_hour,
        "price_as_of": cost.price.as_of,
        "price_source": cost.price.source,
        "per_hour": _range(cost.per_hour),
        "per_million_output_tokens": _range(cost.per_million_output_tokens),
    }


def _range(estimate: Range) -> dict[str, Any]:
    """Four digits are more than an estimate has."""
    return {name: _rounded(getattr(estimate, name)) for name in ("low", "likely", "high")}


def _rounded(number: float) -> float:
    return number if isinstance(number, int) else float(f"{number:.4g}")
