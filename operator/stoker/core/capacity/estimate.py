"""How many requests of a length does one instance hold? Read this first: it puts the parts together.

A model (`model_config.py`), its weights (`weights.py`), an accelerator (`catalog.py`) and the engine's
arguments (`engine_settings.py`) give a budget of memory (`memory.py`). What that leaves is the KV cache
(`kv_cache.py`), and it holds so many requests. Nothing is started and nothing measured: what can not be
known stands in the notes. After the first start the measured cache is known, and its ratio to this
estimate corrects the next one.

Rejected: a margin for safety. It would hide in every figure what the notes say in the open, and the
measured ratio makes it useless after one start.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from stoker.core.capacity.architecture import FullAttention, LatentAttention, ModelConfig
from stoker.core.capacity.catalog import Accelerator
from stoker.core.capacity.engine_settings import EngineSettings
from stoker.core.capacity.kv_cache import (
    KvCache,
    KvLayout,
    concurrency,
    kv_cache,
    kv_layout,
    max_context_length,
    whole_requests,
)
from stoker.core.capacity.kv_dtypes import latent_takes, stored_dtype
from stoker.core.capacity.memory import GIB, MemoryBudget, memory_budget
from stoker.core.capacity.weights import WeightsSize

_LENGTH_UNSAID = 2048
"""Tokens that vLLM takes when neither the arguments nor the config say (`_get_and_verify_max_len`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityEstimate:
    """What one instance holds."""

    fits: bool
    """Whether the engine would start: its cache holds a request of `context_length`."""
    budget: MemoryBudget
    """Of one rank."""
    layout: KvLayout
    cache: KvCache
    """Of one rank; without blocks where the engine would not start at any length."""
    settings: EngineSettings
    context_length: int
    """Most tokens of a request: as asked for, else the model's own, or what fits where that is asked for."""
    requests: int
    """Requests of `context_length` at once, over all engines of the instance; 0 if it does not fit."""
    concurrency: float
    """The same as the engine logs it: not rounded, and not limited by `max_num_seqs`."""
    max_context_length: int
    """The longest request that fits alone; 0 if none does."""
    kv_cache_tokens: int
    """Tokens of the cache when requests are of `context_length`, as the engine logs them."""
    correction: float
    """Measured over estimated cache of an earlier start; 1 without one."""
    notes: tuple[str, ...]
    """What is not known, and what the engine would refuse; one sentence each."""

    def concurrency_at(self, length: int) -> float:
        """Requests of `length` tokens that the caches of all engines hold, not rounded."""
        if not self.max_context_length:
            return 0.0
        each = concurrency(self.layout, self.cache, length)
        # A model that keeps nothing is limited by the batch alone.
        return self.settings.data_parallel * (self.settings.max_num_seqs if math.isinf(each) else each)

    def requests_at(self, length: int) -> int:
        """Whole requests of `length` tokens at once, no more than `max_num_seqs` on each engine."""
        if length > self.max_context_length:
            return 0
        each = min(self.settings.max_num_seqs, whole_requests(self.layout, self.cache, length))
        return self.settings.data_parallel * int(each)


def estimate(
    model: ModelConfig,
    weights: WeightsSize,
    *,
    accelerator: Accelerator,
    settings: EngineSettings,
    correction: float = 1.0,
) -> CapacityEstimate:
    """What one instance of this model holds on these accelerators.

    `correction` is what an earlier start measured: its KV cache over the one that was estimated for it.

    Example: Llama-3.1-8B on one H100 has 0.92 x 79.18 - 14.99 - 4.71 - 0.13 - 0.31 = 52.7 GiB of cache,
    which are 432,000 tokens: 13.2 requests of 32,768.
    """
    budget = memory_budget(
        model,
        weights,
        visible_bytes=accelerator.visible_bytes,
        settings=settings,
        on_cpu=accelerator.vendor == "cpu",
    )
    layout = kv_layout(model, settings)
    refused = list(_refused(model, settings))
    room = 0 if refused else int(budget.kv * correction)
    cache = kv_cache(layout, room)
    own = model.context_length or _LENGTH_UNSAID
    asked = settings.max_model_len or own
    longest = max_context_length(layout, cache, at_most=max(asked, own)) if room > 0 else 0
    length = min(asked, longest) or asked if settings.auto_max_model_len else asked
    open_ended = CapacityEstimate(
        fits=length <= longest,
        budget=budget,
        layout=layout,
        cache=cache,
        settings=settings,
        context_length=length,
        requests=0,
        concurrency=0.0,
        max_context_length=longest,
        kv_cache_tokens=0,
        correction=correction,
        notes=(*refused, *_notes(model, accelerator=accelerator, settings=settings, length=length)),
    )
    held = open_ended.concurrency_at(length)
    return replace(
        open_ended,
        requests=open_ended.requests_at(length),
        concurrency=held,
        kv_cache_tokens=int(held * length),
    )


def explain(estimate: CapacityEstimate) -> str:
    """The arithmetic in one line, as a person would check it. Of one rank, if there are more.

    Example: "0.92 x 44.4 GiB - 14.2 weights - 1.4 activation - 0.1 non-torch - 0.3 CUDA graphs = 24.9 GiB
    KV / 56 KiB a token = 465,904 tokens = 14.22 x 32,768".
    """
    ranks = estimate.settings.ranks
    each = f"On each of {ranks}: " if ranks > 1 else ""
    return each + _memory(estimate) + _requests(estimate)


def _refused(model: ModelConfig, settings: EngineSettings) -> Iterator[str]:
    """Why the engine would not start, whatever the memory."""
    if model.attention_heads % settings.tensor_parallel:
        yield (
            f"The {model.attention_heads} attention heads do not divide by {settings.tensor_parallel} "
            "tensor-parallel ranks, so the engine would not start; use a count that divides them."
        )
    if settings.pipeline_parallel > len(model.layers):
        yield (
            f"The {len(model.layers)} layers can't be cut into {settings.pipeline_parallel} pipeline ranks; "
            "use fewer."
        )
    latent = any(isinstance(layer, LatentAttention) for layer in model.layers)
    dtype = stored_dtype(settings.kv_cache_dtype, model=model)
    if latent and not latent_takes(dtype):
        yield (
            f"vLLM keeps no latent attention in `{dtype}`; use `fp8`, or `nvfp4_ds_mla` with a sparse model."
        )


def _notes(
    model: ModelConfig, *, accelerator: Accelerator, settings: EngineSettings, length: int
) -> Iterator[str]:
    """What is not known."""
    yield from model.unknown
    yield from settings.unknown
    if settings.kv_cache_memory_bytes is None:
        yield from accelerator.doubts
    if model.context_length is not None and length > model.context_length:
        yield (
            f"{length:,} tokens are more than the {model.context_length:,} that the model was made for; vLLM "
            "refuses that unless it is told to stretch the positions."
        )
    if model.multimodal:
        yield "It also takes pictures or sound: the memory that its encoder works in is not counted."


def _memory(estimate: CapacityEstimate) -> str:
    budget, settings = estimate.budget, estimate.settings
    if settings.kv_cache_memory_bytes is not None:
        missing = f", {_gib(-budget.kv)} GiB more than there is" if budget.kv < 0 else ""
        return f"{_gib(settings.kv_cache_memory_bytes)} GiB KV as set{missing}" + _corrected(estimate)
    share = (budget.visible - budget.reserve) / budget.visible
    parts = (
        (budget.weights, "weights"),
        (budget.activation, "activation"),
        (budget.non_torch, "non-torch"),
        (budget.cuda_graphs, "CUDA graphs"),
    )
    taken = "".join(f" - {_gib(size)} {name}" for size, name in parts if size)
    return f"{share:.2f} x {_gib(budget.visible)} GiB{taken} = {_gib(budget.kv)} GiB KV" + _corrected(
        estimate
    )


def _corrected(estimate: CapacityEstimate) -> str:
    return "" if estimate.correction == 1 else f" x {estimate.correction:.3f} as measured"


def _requests(estimate: CapacityEstimate) -> str:
    layout, length = estimate.layout, estimate.context_length
    if not estimate.max_context_length:
        return ": no request fits"
    if not layout.groups:
        return ": the model keeps nothing"
    held = estimate.concurrency / estimate.settings.data_parallel
    if all(isinstance(group.layer, FullAttention | LatentAttention) for group in layout.groups):
        tokens = estimate.kv_cache_tokens // estimate.settings.data_parallel
        return f" / {_size(layout.bytes_per_token)} a token = {tokens:,} tokens = {held:.2f} x {length:,}"
    blocks = layout.blocks_per_request(length)
    return (
        f" / {_size(layout.block_bytes)} a block = {estimate.cache.blocks:,} blocks"
        f" / {blocks:,} a request of {length:,} = {held:.2f} requests"
    )


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}"


def _size(size: int) -> str:
    """Example: 57,344 -> "56 KiB"."""
    for unit, name in ((1024**2, "MiB"), (1024, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{size} B"
