"""What do a model's weights take?"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeights:
    """What the files of a model hold."""

    total_bytes: int
    tensors: Mapping[str, tuple[str, tuple[int, ...]]] | None
    """Type, as safetensors name it (`BF16`, `F8_E4M3` ...), and shape of each tensor; None where only the
    sizes of the files are known."""
