"""What does each layer keep of one block of tokens, on each rank? Pages, before they are grouped.

A page is one layer's share of one block. Layers are cut over pipeline ranks in order; heads are cut
over tensor ranks, and repeated where there are more ranks than heads.

A layer with a state has no tokens to make blocks of. vLLM keeps its state in a page of the same pool,
so it makes the blocks of the attention layers long enough to hold one state
(`Platform._align_hybrid_block_size`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from stoker.core.capacity.architecture import (
    ChunkedAttention,
    FullAttention,
    LatentAttention,
    LayerKind,
    LinearState,
    ModelConfig,
    SlidingWindow,
)
from stoker.core.capacity.engine_settings import EngineSettings
from stoker.core.capacity.kv_dtypes import (
    attention_bytes,
    indexer_bytes,
    latent_bytes,
    state_bytes,
    stored_dtype,
)

_INDEXER_BLOCK = 64
"""Tokens of a block that the sparse indexer's kernels read (`DeepseekV32IndexerBackend`)."""
_LATENT_HYBRID_BLOCK = 128
"""Blocks of latent vectors beside states are a multiple of this (`_align_hybrid_block_size`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One layer's share of one block."""

    layer: LayerKind
    block_size: int
    """Tokens of a block; without meaning for a state."""
    bytes: int


def pages(model: ModelConfig, settings: EngineSettings) -> list[list[Page]]:
    """The pages of each pipeline rank, in the order of its layers.

    Example: 32 layers of 8 heads of 128 in bfloat16 on two tensor ranks are one list of 32 pages of
    16 * 4 * 512 = 32,768 bytes.
    """
    stages = _stages(model, settings)
    block_size = _block_size([layer for stage in stages for layer in stage], model, settings)
    return [
        [page for layer in stage for page in _pages_of(layer, model, settings, block_size=block_size)]
        for stage in stages
    ]


def _stages(model: ModelConfig, settings: EngineSettings) -> list[list[LayerKind]]:
    """The layers of each pipeline rank that keep something; a drafter's are on the last rank.

    What remains of the division goes to the ranks before the last (`vllm.distributed.get_pp_indices`).
    Example: 62 layers on 4 ranks are 15, 16, 16 and 15.
    """
    ranks = settings.pipeline_parallel
    each, rest = divmod(len(model.layers), ranks)
    sizes = [each + (ranks - 1 - rest <= rank < ranks - 1) for rank in range(ranks)]
    layers = _as_managed(model.layers, settings)
    stages = []
    for rank, size in enumerate(sizes):
        start = sum(sizes[:rank])
        stages.append([layer for layer in layers[start : start + size] if layer is not None])
    stages[-1] += _drafter(layers, settings)
    return stages


def _as_managed(layers: Sequence[LayerKind | None], settings: EngineSettings) -> list[LayerKind | None]:
    """Layers with a window or a chunk are kept whole when the user turns the hybrid manager off.

    Source: `unify_hybrid_kv_cache_specs`; it leaves a model alone that has no full attention.
    """
    if settings.hybrid_kv_cache or not any(isinstance(layer, FullAttention) for layer in layers):
        return list(layers)
    return [
        FullAttention(kv_heads=layer.kv_heads, key_dim=layer.key_dim, value_dim=layer.value_dim)
        if isinstance(layer, SlidingWindow | ChunkedAttention)
        else layer
        for layer in layers
    ]


def _drafter(layers: Sequence[LayerKind | None], settings: EngineSettings) -> list[LayerKind]:
    """A drafter's layers: EAGLE and MTP repeat the model's own attention over all tokens."""
    attention = [layer for layer in layers if layer is not None and not isinstance(layer, LinearState)]
    whole_first = sorted(attention, key=lambda layer: isinstance(layer, SlidingWindow | ChunkedAttention))
    return [layer for layer in whole_first[:1] for _ in range(settings.speculative_layers)]


def _block_size(layers: Sequence[LayerKind], model: ModelConfig, settings: EngineSettings) -> int:
    """Tokens of a block of the attention layers.

    Example: a state of 2,146,304 bytes beside 1,024 bytes a token needs blocks of 2,096 tokens,
    a multiple of 16.
    """
    smallest = settings.block_size
    if any(isinstance(layer, LatentAttention) and layer.indexer_dim for layer in layers):
        smallest = max(smallest, _INDEXER_BLOCK)
    token = max((_token_bytes(layer, model, settings) for layer in layers), default=0)
    state = max((_state_bytes(layer, model, settings) for layer in layers), default=0)
    if not token or not state:
        return smallest
    if any(isinstance(layer, LatentAttention) for layer in layers):
        smallest = max(smallest, _LATENT_HYBRID_BLOCK)
    return smallest * -(-state // (smallest * token))


def _pages_of(
    layer: LayerKind, model: ModelConfig, settings: EngineSettings, *, block_size: int
) -> Iterator[Page]:
    if isinstance(layer, LinearState):
        yield Page(layer=layer, block_size=block_size, bytes=_state_bytes(layer, model, settings))
        return
    yield Page(layer=layer, block_size=block_size, bytes=block_size * _token_bytes(layer, model, settings))
    if isinstance(layer, LatentAttention) and layer.indexer_dim:
        indexer = LatentAttention(rank=layer.indexer_dim, rope_dim=0)
        yield Page(layer=indexer, block_size=block_size, bytes=block_size * indexer_bytes(layer))


def _token_bytes(layer: LayerKind, model: ModelConfig, settings: EngineSettings) -> int:
    """Bytes of one token in one layer, without its indexer; 0 for a state."""
    own = model.bytes_per_element
    dtype = stored_dtype(settings.kv_cache_dtype, model=model)
    if isinstance(layer, LinearState):
        return 0
    if isinstance(layer, LatentAttention):
        return latent_bytes(layer, kv_cache_dtype=dtype, own=own)
    heads = max(1, layer.kv_heads // settings.tensor_parallel)
    return attention_bytes(layer, heads=heads, kv_cache_dtype=dtype, own=own)


def _state_bytes(layer: LayerKind, model: ModelConfig, settings: EngineSettings) -> int:
    """Bytes of one request's state in one layer; 0 for attention."""
    if not isinstance(layer, LinearState):
        return 0
    if settings.state_bytes_per_element is not None:
        layer = replace(layer, state_bytes_per_element=settings.state_bytes_per_element)
    return state_bytes(
        layer,
        tensor_parallel=settings.tensor_parallel,
        speculative_tokens=settings.speculative_tokens,
        own=model.bytes_per_element,
    )
