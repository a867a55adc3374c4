"""How many requests does a KV cache hold? Blocks, groups and concurrency, as vLLM 0.32 counts them.

The memory is one pool of blocks. A request takes blocks for each group of layers: for all its tokens
where a layer keeps all, for a window where it keeps that, a few for a state. The engine's own figure,
and the only one that means something for every model, is the concurrency at a length: all blocks over
the blocks of one such request. "Tokens" is that concurrency times the length, and depends on it.

One block, the null block, is never given out: vLLM prints a concurrency that counts it, and refuses
to start when one request fits only with it.

Source: `get_max_concurrency_for_kv_cache_config` in `vllm/v1/core/kv_cache_utils.py`, and
`max_memory_usage_bytes` of each kind in `vllm/v1/kv_cache_interface.py`.
"""

import math
from dataclasses import dataclass

from stoker.core.capacity.architecture import (
    ChunkedAttention,
    FullAttention,
    LatentAttention,
    LinearState,
    ModelConfig,
    SlidingWindow,
)
from stoker.core.capacity.engine_settings import EngineSettings
from stoker.core.capacity.groups import KvGroup, kv_groups
from stoker.core.capacity.pages import pages


@dataclass(frozen=True, slots=True, kw_only=True)
class KvLayout:
    """How the KV cache of one rank is laid out, whatever its size."""

    groups: tuple[KvGroup, ...]
    """Layers that share a block table; none for a model that keeps nothing."""
    block_bytes: int
    """Bytes of one block: the layers of the largest group, on the rank that has most of them."""
    in_flight_tokens: int
    """Tokens that may be under way; layers with a window hold them on top of it."""
    state_blocks: int
    """Blocks of a request in each group of states, checkpoints aside."""
    keeps_checkpoints: bool = False
    """Whether states have checkpoints for prefix caching."""
    decode_context_parallel: int = 1
    """Ranks that a request's tokens are dealt out to."""

    @property
    def block_size(self) -> int:
        """Tokens of a block, of layers that keep all tokens if there are any."""
        whole = [group.block_size for group in self.groups if _keeps_all(group)]
        return (whole or [group.block_size for group in self.groups] or [1])[0]

    @property
    def bytes_per_token(self) -> int:
        """Bytes on this rank that one more token of a long request takes: windows and states do not grow."""
        tokens = [
            group.block_size * self.decode_context_parallel for group in self.groups if _keeps_all(group)
        ]
        return math.ceil(sum(self.block_bytes / n for n in tokens))

    def blocks_per_request(self, length: int) -> int:
        """Blocks that a request of `length` tokens takes.

        Example: 16,000 tokens on gpt-oss-20b with 8,192 in flight take 1,000 blocks for the full
        layers, and ceil((128 - 1 + 8,192) / 16) + 1 = 521 for the window layers.
        """
        return sum(self._blocks(group, length) for group in self.groups)

    def bytes_per_request(self, length: int) -> int:
        """Bytes on this rank that a request of `length` tokens takes."""
        return self.blocks_per_request(length) * self.block_bytes

    def _blocks(self, group: KvGroup, length: int) -> int:
        match group.layer:
            case SlidingWindow(window=window):
                # One more, as a window need not start where a block does.
                return _ceil(min(window - 1 + self.in_flight_tokens, length), group.block_size) + 1
            case ChunkedAttention(chunk=chunk):
                return _ceil(min(chunk + self.in_flight_tokens, length), group.block_size)
            case LinearState(checkpoints=checkpoints):
                return self.state_blocks + checkpoints * self.keeps_checkpoints
            case _:
                return _ceil(_ceil(length, self.decode_context_parallel), group.block_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCache:
    """The KV cache of one rank."""

    bytes_per_token: int
    """Bytes that one more token of a long request takes; what grows, without windows and states."""
    block_size: int
    """Tokens of one block."""
    block_bytes: int
    """Bytes of one block of a group: all its layers together."""
    blocks: int
    """Blocks that the memory holds, the null block among them."""


def kv_layout(model: ModelConfig, settings: EngineSettings) -> KvLayout:
    """How vLLM lays out the KV cache of this model with these arguments.

    Example: Llama-3.1-8B has one group of 32 layers, with blocks of 16 tokens and 2 MiB.
    """
    groups, block_bytes = kv_groups(pages(model, settings))
    hybrid = any(not isinstance(group.layer, LinearState) for group in groups)
    # With prefix caching a state is kept where the last block ended and where the present step does.
    aligned = settings.prefix_caching and hybrid
    return KvLayout(
        groups=groups,
        block_bytes=block_bytes,
        in_flight_tokens=settings.concurrent_batches * settings.max_num_batched_tokens,
        state_blocks=1 + aligned + settings.speculative_tokens,
        keeps_checkpoints=aligned,
        decode_context_parallel=settings.decode_context_parallel,
    )


def kv_cache(layout: KvLayout, memory_bytes: int) -> KvCache:
    """The KV cache that so much memory of one rank holds; no blocks when there is none."""
    return KvCache(
        bytes_per_token=layout.bytes_per_token,
        block_size=layout.block_size,
        block_bytes=layout.block_bytes,
        blocks=max(0, memory_bytes) // layout.block_bytes if layout.groups else 0,
    )


def concurrency(layout: KvLayout, cache: KvCache, length: int) -> float:
    """Requests of `length` tokens at once, as the engine logs it; infinite for a model that keeps nothing.

    Example: 299 blocks at 69 for each request of 131,072 tokens are 4.33.
    """
    blocks = layout.blocks_per_request(length)
    return cache.blocks / blocks if blocks else math.inf


def whole_requests(layout: KvLayout, cache: KvCache, length: int) -> float:
    """Whole requests of `length` tokens at once, without the null block; infinite as `concurrency` is."""
    blocks = layout.blocks_per_request(length)
    return max(0, cache.blocks - 1) // blocks if blocks else math.inf


def max_context_length(layout: KvLayout, cache: KvCache, *, at_most: int) -> int:
    """The longest request that fits alone, and is no longer than `at_most`; 0 if none does.

    By bisection, as a longer request never takes fewer blocks (`_estimate_max_model_len_from_groups`).
    """
    fits, does_not = 0, at_most + 1
    while does_not - fits > 1:
        length = (fits + does_not) // 2
        if whole_requests(layout, cache, length) >= 1:
            fits = length
        else:
            does_not = length
    return fits


def _keeps_all(group: KvGroup) -> bool:
    return isinstance(group.layer, FullAttention | LatentAttention)


def _ceil(amount: int, unit: int) -> int:
    return -(-amount // unit)
