"""Which layers share a block table? Groups, as vLLM 0.32 makes them.

All groups draw blocks from one pool, so a block has one size: the bytes of the largest group. A model
whose layers are alike is one group. Otherwise pages are made equal, layers are sorted by what they
keep, and each kind is cut into groups of as many layers as the smallest kind has, so that no group
wastes much of a block.

Source: `get_kv_cache_groups`, `unify_kv_cache_spec_page_size` and
`_get_kv_cache_groups_uniform_page_size` in `vllm/v1/core/kv_cache_utils.py`.

Left out: block-outermost layouts, which vLLM takes for DeepSeek-V4 only, and its fallback for latent
vectors beside windows that no page fits; there a page is padded.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stoker.core.capacity.architecture import (
    ChunkedAttention,
    LayerKind,
    LinearState,
    SlidingWindow,
)
from stoker.core.capacity.pages import Page

_PAD_UP_TO = 1.5
"""Kinds that differ by less than this get groups of the larger size: 12 and 13 layers, not 12, 12 and 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvGroup:
    """Layers that share a block table."""

    layer: LayerKind
    """What each of them keeps."""
    layers: int
    """How many, over all pipeline ranks; a sparse indexer's cache counts as one more."""
    block_size: int
    """Tokens of a block; without meaning for states."""


Placed = tuple[int, Page]
"""A page and the pipeline rank that holds it."""


def kv_groups(stages: Sequence[Sequence[Page]]) -> tuple[tuple[KvGroup, ...], int]:
    """The groups, and the bytes of one block on the rank where it is largest.

    Example: 3 full and 12 window layers whose pages are equal are five groups of 3 layers.
    """
    placed = [(rank, page) for rank, stage in enumerate(stages) for page in stage]
    if not placed:
        return (), 0
    groups = [placed] if _share_a_table([page for _, page in placed]) else _grouped(_equal_pages(placed))
    block_bytes = max(
        sum(page.bytes for at, page in group if at == rank) for group in groups for rank in range(len(stages))
    )
    return tuple(_group(group) for group in groups), block_bytes


def _share_a_table(pages: Sequence[Page]) -> bool:
    """Whether all layers need the same number of blocks (`UniformTypeKVCacheSpecs.is_uniform_type`)."""
    return len({_table(page) for page in pages}) == 1


def _table(page: Page) -> tuple[str, int]:
    """What the number of a layer's blocks depends on, where blocks are equally long."""
    match page.layer:
        case SlidingWindow(window=window):
            return "window", window
        case ChunkedAttention(chunk=chunk):
            return "chunk", chunk
        case LinearState():
            return "state", page.bytes
        case _:
            return "all tokens", 0


def _equal_pages(placed: Sequence[Placed]) -> list[Placed]:
    """Pages of the same size: longer blocks where that comes out even, padding where it does not."""
    largest = max(page.bytes for _, page in placed)
    return [(rank, _enlarged(page, largest)) for rank, page in placed]


def _enlarged(page: Page, size: int) -> Page:
    if isinstance(page.layer, LinearState) or size % page.bytes:
        return replace(page, bytes=size)
    return replace(page, block_size=page.block_size * (size // page.bytes), bytes=size)


def _grouped(placed: Sequence[Placed]) -> list[list[Placed]]:
    kinds: dict[Page, list[Placed]] = {}
    for rank, page in placed:
        kinds.setdefault(page, []).append((rank, page))
    sizes = [len(layers) for layers in kinds.values()]
    size = max(sizes) if max(sizes) < min(sizes) * _PAD_UP_TO else min(sizes)
    groups = []
    for layers in kinds.values():
        count = -(-len(layers) // size)
        # Every count-th layer, so that each pipeline rank has a part of every group.
        groups += [layers[i::count] for i in range(count)]
    return groups


def _group(placed: Sequence[Placed]) -> KvGroup:
    _, page = placed[0]
    return KvGroup(layer=page.layer, layers=len(placed), block_size=page.block_size)
