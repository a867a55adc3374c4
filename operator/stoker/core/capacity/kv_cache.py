"""How many requests does a KV cache hold? Blocks, groups and concurrency, as vLLM counts them."""

from dataclasses import dataclass


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
    """Blocks that the memory holds."""
