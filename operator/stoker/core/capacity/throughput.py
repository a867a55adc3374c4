"""How fast is an instance? Tokens per second, time to first token and inter-token latency, as ranges.

Read `roofline.py` for the arithmetic and `bands.py` for how far to trust it. This module turns a model and a
workload into what the hardware has to read and compute, and times into what users and bills see.
"""

from collections import Counter
from dataclasses import dataclass

from stoker.core.capacity.architecture import (
    ChunkedAttention,
    FullAttention,
    LatentAttention,
    LayerKind,
    LinearState,
    ModelConfig,
    Quantization,
    SlidingWindow,
)
from stoker.core.capacity.bands import Band, band
from stoker.core.capacity.catalog import Accelerator
from stoker.core.capacity.engine_settings import EngineSettings
from stoker.core.capacity.kv_dtypes import attention_bytes, latent_bytes, state_bytes, stored_dtype
from stoker.core.capacity.roofline import Hardware, Work, decode_step_s, prefill_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """An estimate with its limits: low <= likely <= high."""

    low: float
    likely: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What the requests look like, on average."""

    requests: float
    """Requests that run at once, more than 0."""
    prompt_tokens: float
    """At least 1."""
    output_tokens: float
    """At least 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """What one instance achieves under a workload."""

    output_tokens_per_s: Range
    """Of all its requests together."""
    time_to_first_token_s: Range
    """Mean. The upper end is the last of all requests when they come at once."""
    inter_token_latency_s: Range
    """Mean, between two tokens of one request."""
    why: str
    """Why the ranges are as wide as they are."""


def throughput(
    model: ModelConfig,
    *,
    weight_bytes: int,
    expert_bytes: int,
    active_parameters: int,
    accelerator: Accelerator,
    settings: EngineSettings,
    workload: Workload,
) -> Throughput:
    """Speed of one instance when `workload.requests` run at once all the time, or as many as its engine lets.

    `weight_bytes` is the whole model with its routed experts, `expert_bytes` these alone.

    Example: Qwen3-8B in bfloat16 on an H100, 16 requests of 2,048 tokens that get 2,048 more: 7.05 ms / .9
    + 36 x 50 us + .26 ms for 16 new tokens + 16 / 2,048 x 70 ms for prompts = 10.4 ms, so 1,531 tokens/s;
    measured 1,625.
    """
    work = work_of(
        model,
        weight_bytes=weight_bytes,
        expert_bytes=expert_bytes,
        active_parameters=active_parameters,
        settings=settings,
        workload=workload,
    )
    hardware = Hardware(
        accelerator=accelerator,
        tensor_parallel=settings.tensor_parallel,
        pipeline_parallel=settings.pipeline_parallel,
        data_parallel=settings.data_parallel,
    )
    requests = min(workload.requests, settings.max_num_seqs * settings.data_parallel)
    return speed(work, hardware, requests=requests, output_tokens=workload.output_tokens)


def speed(work: Work, hardware: Hardware, *, requests: float, output_tokens: float) -> Throughput:
    """Speed of `requests` that run at once, each replaced by the next when it has its `output_tokens`."""
    trust = band(work, hardware)
    step = decode_step_s(work, hardware, requests=requests)
    prefill = prefill_s(work, hardware)
    # In the time in which a request gets all its tokens, every other one enters once and its prompt holds
    # up the rest; stages of a pipeline work on several prompts at once.
    own = hardware.of_one_engine(requests)
    interruptions = own / output_tokens * prefill / hardware.pipeline_parallel
    likely = requests / (step + interruptions)
    by_others = interruptions * max(own - 1, 0) / own
    return Throughput(
        output_tokens_per_s=Range(low=likely * trust.low, likely=likely, high=likely * trust.high),
        time_to_first_token_s=_first_token(
            work, hardware, trust, requests=requests, share=interruptions / (step + interruptions)
        ),
        inter_token_latency_s=Range(
            low=step / trust.high,
            likely=step + by_others,
            high=(step + interruptions) / trust.low,
        ),
        why=trust.why,
    )


_FRONT_S = 0.01
"""Tokenizing, scheduling and HTTP before the first token: readings 1, 12, 13 and 14, with short prompts."""


def _first_token(work: Work, hardware: Hardware, trust: Band, *, requests: float, share: float) -> Range:
    """Time to the first token.

    A short prompt takes a step's time, as the weights must be read for it too. Under load it waits for the
    prompts that come before it: `share` is the part of the engine's time that goes to prompts, and a queue of
    one server with equal services lets a customer wait `share / (2 x (1 - share))` services (M/D/1).

    Example: Llama-3.3-70B in fp8 on two H100, 50 requests of 5,000 tokens that get 500: 373 ms for a prompt,
    56 % of the time for prompts -> 373 x (1 + .64) + 10 + 15 for half of the running step = 638 ms;
    measured 835.
    """
    prefill = prefill_s(work, hardware)
    others = max(hardware.of_one_engine(requests) - 1, 0)
    alone = max(prefill, decode_step_s(work, hardware, requests=1)) + _FRONT_S
    running = decode_step_s(work, hardware, requests=requests) * min(others, 1)
    # Not more than half of the others, on average, are ahead.
    wait = prefill * min(share / (2 * (1 - share)), others / 2)
    return Range(
        low=alone / 2,
        likely=alone + wait + running / 2,
        high=2 * alone + running + others * prefill / trust.low + trust.first_token_more_s,
    )


def work_of(
    model: ModelConfig,
    *,
    weight_bytes: int,
    expert_bytes: int,
    active_parameters: int,
    settings: EngineSettings,
    workload: Workload,
) -> Work:
    """What a workload asks of the hardware, with each request in the middle of its output."""
    prompt = workload.prompt_tokens
    middle = prompt + workload.output_tokens / 2
    # Layers that keep nothing of their own read what others keep. Most are alike, and computed once.
    layers = Counter(layer for layer in (*model.layers, *model.borrowing) if layer is not None).items()
    experts = model.experts
    return Work(
        dense_bytes=weight_bytes - expert_bytes,
        expert_bytes=expert_bytes,
        expert_share=experts.per_token / experts.count if experts else 0.0,
        layers=len(model.layers),
        kv_bytes=sum(n * _read_bytes(layer, model, settings, length=middle) for layer, n in layers),
        prefill_flops=2 * active_parameters * prompt
        + sum(n * _attention_flops(layer, model, prompt) for layer, n in layers),
        token_flops=2 * active_parameters,
        bits=_operation_bits(model.quantization),
    )


def _read_bytes(layer: LayerKind, model: ModelConfig, settings: EngineSettings, *, length: float) -> float:
    """Bytes that a step reads of one request in one layer, on all tensor-parallel ranks together.

    A rank holds at least one head, so with more ranks than heads each head is read several times, and the one
    latent vector on every rank; decode context parallelism splits these copies again. A state of fixed size
    is read and written.
    """
    own, dtype = model.bytes_per_element, stored_dtype(settings.kv_cache_dtype, model=model)
    if isinstance(layer, LinearState):
        return 2 * state_bytes(layer, tensor_parallel=1, speculative_tokens=0, own=own)
    ranks = settings.tensor_parallel / settings.decode_context_parallel
    if isinstance(layer, LatentAttention):
        return max(1, ranks) * latent_bytes(layer, kv_cache_dtype=dtype, own=own) * length
    copies = max(1, ranks / layer.kv_heads)
    token = attention_bytes(layer, heads=layer.kv_heads, kv_cache_dtype=dtype, own=own)
    return copies * token * _seen(layer, length)


def _attention_flops(layer: LayerKind, model: ModelConfig, prompt: float) -> float:
    """Operations that a prompt's tokens spend on one another: two for each pair, head and element.

    Half of all pairs count, as no token looks ahead. For Llama-3.1-8B they reach those of the weights at
    61,000 tokens. Latent vectors are unpacked for it.
    """
    if isinstance(layer, LinearState):
        return 0.0
    if isinstance(layer, LatentAttention):
        unpacked = model.latent.nope_dim + model.latent.value_dim if model.latent else 2 * layer.rank
        return prompt**2 * model.attention_heads * (unpacked + layer.rope_dim)
    seen = _seen(layer, prompt)
    twice_pairs = seen * prompt if isinstance(layer, ChunkedAttention) else seen * (2 * prompt - seen)
    return twice_pairs * model.attention_heads * (layer.key_dim + layer.value_dim)


def _seen(layer: FullAttention | SlidingWindow | ChunkedAttention, length: float) -> float:
    """Tokens that the last of `length` tokens looks at, at most."""
    if isinstance(layer, SlidingWindow):
        return min(length, layer.window)
    return min(length, layer.chunk) if isinstance(layer, ChunkedAttention) else length


_MULTIPLY_IN_8 = ("compressed-tensors", "modelopt", "quark")
"""Methods without fp8 in their name whose 8 bits are multiplied as they are; GPTQ unpacks its own."""
_FP4_GROUP = 16
"""Weights that share a scale in NVFP4, the only 4-bit format of compressed-tensors multiplied in 4."""


def _operation_bits(quantization: Quantization | None) -> int:
    """Of the numbers that the linear layers multiply, where the accelerator can.

    AWQ, GPTQ and the like store 4 or 8 bits and multiply in 16.
    """
    if quantization is None:
        return 16
    method = quantization.method
    packed = method == "compressed-tensors" and quantization.group_size == _FP4_GROUP
    if quantization.bits == 4 and ("fp4" in method or method == "quark" or packed):
        return 4
    return 8 if quantization.bits == 8 and ("fp8" in method or method in _MULTIPLY_IN_8) else 16
