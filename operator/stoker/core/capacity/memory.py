"""What becomes of the memory of one accelerator: weights, activation, reserve, and what is left for KV.

    kv = utilization x visible - weights - non-torch - activation - CUDA graphs

as vLLM's `Worker.determine_available_memory` computes it, with these estimates for what only a run
can measure:

- Activation: the larger of the sampler's warm-up, 38.5 B for each of `max_num_seqs` and each entry of
  the vocabulary, which tensor parallelism does not divide, and of one prefill step. Eight of eleven
  published readings lie within 3 % of the first; the others, among them a vision model that takes less
  than half, are named in the tests. A measured value replaces it after the first start.
- Non-torch: what was read, by the number of ranks. NCCL's buffers are most of it.
- CUDA graphs: vLLM takes an estimate of them from the budget since v0.21. The one reading at hand that
  has it (0.23 GiB, 32 layers, v0.31) closes without it, so what stands here is a bound: 10 MiB a layer,
  between that reading and the 1 GiB that is the most anybody reports. It costs 0.3 GiB of KV where it
  is wrong; the other error would be a pod that does not start.

On CPU vLLM works otherwise (`vllm/v1/worker/cpu_worker.py`): KV gets the utilization's share of the
memory that it sees, less what the process has resident after its warm-up. It sees one NUMA node, or the
memory limit of the container where that is less. `VLLM_CPU_KVCACHE_SPACE` (in GiB) and
`--kv-cache-memory-bytes` set the cache outright, and are the same setting inside.
"""

from dataclasses import dataclass

from stoker.core.capacity.architecture import ModelConfig
from stoker.core.capacity.engine_settings import EngineSettings
from stoker.core.capacity.weights import WeightsSize

GIB = 1024**3

_SAMPLER_BYTES = 38.5
"""For each sequence and entry of the vocabulary: float32 logits, their copies and the sort of top-p."""
_MLP_BUFFERS = 3
"""Intermediate results of the width of an MLP that one step holds at once: gate, up, their product."""
_GRAPH_BYTES_PER_LAYER = 10 * 1024**2
_GRAPH_BYTES_MOST = GIB
_NON_TORCH = round(0.13 * GIB)
"""One rank: 0.02 to 0.14 GiB were read, 0.13 or 0.14 in every run on an H100."""
_NON_TORCH_CPU = GIB
"""Python, torch and the compiler: a guess, until the first start has measured it."""
_LARGE_DEVICE = 100 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """The memory of one accelerator (one rank), in bytes."""

    visible: int
    """What the driver reports; less than the number in the product's name."""
    weights: int
    non_torch: int
    """Communication buffers and the like that the engine's allocator does not see."""
    activation: int
    """Peak of intermediate results."""
    cuda_graphs: int
    """Upper bound for captured graphs; 0 where they are not taken from the budget."""
    reserve: int
    """What the engine leaves alone: `(1 - gpu_memory_utilization) * visible`."""
    kv: int
    """What is left for the KV cache; negative when not even the weights fit."""


def memory_budget(
    model: ModelConfig,
    weights: WeightsSize,
    *,
    visible_bytes: int,
    settings: EngineSettings,
    on_cpu: bool = False,
) -> MemoryBudget:
    """The memory of the rank that has least room.

    Example: Llama-3.1-8B on an H100 (79.18 GiB visible, utilization 0.90, 1,024 sequences): 71.26 - 14.99
    weights - 0.13 - 38.5 B x 1,024 x 128,256 (4.71) = 51.43 GiB; 51.38 were read.
    """
    return budget(
        visible_bytes=visible_bytes,
        weights=weights.per_rank(settings),
        non_torch=_non_torch(visible_bytes, settings, on_cpu=on_cpu),
        activation=activation_bytes(model, settings),
        cuda_graphs=0 if on_cpu or not settings.cuda_graphs else _graph_bytes(model, settings),
        settings=settings,
    )


def budget(
    *,
    visible_bytes: int,
    weights: int,
    non_torch: int,
    activation: int,
    cuda_graphs: int,
    settings: EngineSettings,
) -> MemoryBudget:
    """What is left for KV when the other parts are known, estimated or measured.

    With `kv_cache_memory_bytes` vLLM neither keeps to the utilization nor looks whether there is room:
    what does not fit ends in an error at the start, so `kv` is then what is missing, below zero.
    """
    free = visible_bytes - weights - non_torch - activation - cuda_graphs
    asked = settings.kv_cache_memory_bytes
    if asked is None:
        reserve = round((1 - settings.gpu_memory_utilization) * visible_bytes)
        kv = free - reserve
    else:
        reserve = max(0, free - asked)
        kv = asked if asked <= free else free - asked
    return MemoryBudget(
        visible=visible_bytes,
        weights=weights,
        non_torch=non_torch,
        activation=activation,
        cuda_graphs=cuda_graphs,
        reserve=reserve,
        kv=kv,
    )


def activation_bytes(model: ModelConfig, settings: EngineSettings) -> int:
    """Peak of intermediate results on one rank.

    Example: 256 sequences and a vocabulary of 151,936 -> 38.5 x 256 x 151,936 B = 1.39 GiB.
    """
    sampler = _SAMPLER_BYTES * settings.max_num_seqs * model.vocab_size
    width, per_token = model.intermediate_size, 0
    if (experts := model.experts) is not None:
        routed = experts.per_token * experts.intermediate_size + experts.shared_intermediate_size
        width = max(width, routed)
        # The results of a token's experts, before they are summed: every rank has them whole.
        per_token = experts.per_token * model.hidden_size
    divided = _MLP_BUFFERS * width / settings.tensor_parallel
    prefill = settings.max_num_batched_tokens * (divided + per_token) * model.bytes_per_element
    return round(max(sampler, prefill))


def _non_torch(visible_bytes: int, settings: EngineSettings, *, on_cpu: bool) -> int:
    if on_cpu:
        return _NON_TORCH_CPU
    if settings.tensor_parallel * settings.pipeline_parallel == 1:
        return _NON_TORCH
    # Read with two ranks: 0.5 to 0.6 GiB on H100s, 1.4 on H200s.
    return round((1.4 if visible_bytes > _LARGE_DEVICE else 0.6) * GIB)


def _graph_bytes(model: ModelConfig, settings: EngineSettings) -> int:
    layers = -(-len(model.layers) // settings.pipeline_parallel)
    return min(_GRAPH_BYTES_MOST, layers * _GRAPH_BYTES_PER_LAYER)
