"""How long does the hardware need at the least, and how much longer does it take?

Decoding is bound by memory: each step reads all weights once, whatever the number of requests, and the keys
and values of every request. Prefill is bound by operations. Real engines reach a share of both and lose a
fixed time in each layer to launches, attention and, over several accelerators, communication; so three terms
beat one ratio (a ratio would have to be .81 in one case and .03 in another):

    step = memory / 0.9 + layers x fixed + operations of the new tokens + prefill of the requests that enter

The constants come from published readings, which the tests list by number with their sources; `bands.py` says
how far to trust the result. Rejected: a table of measured configurations (new models come every week), and
simulating the scheduler (its inputs are not known before an instance runs).
"""

import math
from dataclasses import dataclass

from stoker.core.capacity.catalog import Accelerator


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one request of a workload asks of the hardware, and what all requests share."""

    dense_bytes: float
    """Weights that every step reads: all but the routed experts."""
    expert_bytes: float
    """Weights of the routed experts; 0 without."""
    expert_share: float
    """Share of the experts that one token is sent to; 0 without."""
    layers: int
    kv_bytes: float
    """Keys, values and states that a step reads for one request of middling length, on all ranks together."""
    prefill_flops: float
    """Operations for one prompt."""
    token_flops: float
    """Operations for one new token."""
    bits: int
    """Of the operations' numbers: 16, 8 or 4; a step up is taken where the accelerator has no such unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The accelerators of one instance."""

    accelerator: Accelerator
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    """Engines that share the requests, and the routed experts."""

    def of_one_engine(self, requests: float) -> float:
        """How many of the requests one engine has, if it has any: a lone one is not divided."""
        return max(requests / self.data_parallel, min(requests, 1.0))


_MEMORY_EFFICIENCY = 0.9
"""Share of the bandwidth that the bare reading of weights and KV reaches (readings 1 and 3 give .94)."""


def memory_s(work: Work, hardware: Hardware, *, requests: float) -> float:
    """The least time of one decode step, by what it reads.

    With tokens sent to experts independently, `requests` tokens touch `1 - (1 - share) ** requests` of them.
    Pipeline stages read their weights one after the other, so those gain by tensor parallelism only. Engines
    of a data-parallel group read the experts that all their requests need together, each a part of them.

    Example: Qwen3-8B in bfloat16 on an H100, 16 requests of 2,048 tokens that get 2,048 more:
    (16.38e9 + 16 x 3,072 x 147,456) / 3,350e9 = 7.05 ms, so at most 16 / 7.05 ms = 2,269 tokens/s.
    """
    bandwidth = hardware.accelerator.bandwidth_bytes_per_s * hardware.tensor_parallel
    touched = 1 - math.pow(1 - work.expert_share, requests)
    weights = work.dense_bytes + work.expert_bytes * touched / hardware.data_parallel
    own = hardware.of_one_engine(requests)
    return (weights + own * work.kv_bytes / hardware.pipeline_parallel) / bandwidth


def operations_s(flops: float, hardware: Hardware, *, bits: int) -> float:
    """The least time of one engine for so many dense operations."""
    accelerator = hardware.accelerator
    speed = accelerator.flops_16bit
    if bits <= 8 and accelerator.flops_8bit is not None:
        speed = accelerator.flops_8bit
    if bits <= 4:
        # Weights in 4 bits are multiplied in 4 bits or, unpacked, in 16: nobody goes through 8.
        speed = accelerator.flops_4bit or accelerator.flops_16bit
    return flops / (speed * hardware.tensor_parallel)


def decode_step_s(work: Work, hardware: Hardware, *, requests: float) -> float:
    """Likely time of a step in which each of `requests` gets one token and no prompt is read.

    The operations of the new tokens come on top of the memory's time: with 256 requests an H100 needs a fifth
    longer than memory and layers explain (readings 28 and 29), and these are just that fifth.
    """
    read = memory_s(work, hardware, requests=requests) / _MEMORY_EFFICIENCY
    own = hardware.of_one_engine(requests)
    compute = operations_s(work.token_flops * own, hardware, bits=work.bits)
    return read + work.layers * _fixed_s(work, hardware) + compute / hardware.pipeline_parallel


def prefill_s(work: Work, hardware: Hardware) -> float:
    """Likely time that one prompt takes from the engine."""
    least = operations_s(work.prefill_flops, hardware, bits=work.bits)
    return least / _prefill_efficiency(hardware)


def _fixed_s(work: Work, hardware: Hardware) -> float:
    """Time of a layer that depends on neither bytes nor operations."""
    if work.expert_bytes:
        return 130e-6  # readings 14, 24, 25, 26
    if hardware.tensor_parallel > 1:
        return 100e-6  # readings 8, 9, 10, 19, 22, 33: two all-reduces in each layer
    return 50e-6  # readings 1-4, 7, 12, 13, 15, 16, 18, 21


def _prefill_efficiency(hardware: Hardware) -> float:
    """Share of the dense operations that prefill reaches beside decoding.

    Over several AMD cards it falls: from .25 of one MI300X (reading 31) to .06 of eight MI355X (reading 34,
    and prompts of 16k to 64k tokens). A curve between them keeps a second card from being taken for a loss.
    """
    vendor = hardware.accelerator.vendor
    if vendor == "nvidia":
        return 0.5  # readings 19, 33; first tokens at one request: .35 to .61
    if vendor == "amd":
        return 0.25 / math.pow(hardware.tensor_parallel, 0.7)
    return 0.25  # reading 36; one TPU v6e reads .26
