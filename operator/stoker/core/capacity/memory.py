"""What becomes of the memory of one accelerator: weights, activation, reserve, and what is left for KV."""

from dataclasses import dataclass

GIB = 1024**3


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
