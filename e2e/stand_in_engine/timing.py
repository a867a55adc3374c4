"""How long one engine step takes, and how many tokens of KV cache an accelerator has left.

A step reads the weights once, reads the KV cache of every sequence that decodes, and computes the
prompt tokens that are part of it. These terms add up, which holds within a few per cent against
readings up to 256 sequences (`profiles.py` names them).

Rejected: a table of latencies per batch size (says nothing between its rows, nor how context
length matters); random noise (a test could no longer say what must come out).
"""

from dataclasses import dataclass

BLOCK_TOKENS = 16
"""Tokens in one block of KV cache, vLLM's default."""

_GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTiming:
    """What a step costs on one accelerator (or one tensor-parallel group) with one model."""

    base_s: float
    """Reading the weights and launching the kernels, whatever the batch."""
    per_sequence_s: float
    """Sampling and bookkeeping of one sequence that decodes."""
    per_kv_token_s: float
    """Reading the KV cache of one token of context."""
    prefill_tokens_per_s: float
    """Prompt tokens computed per second."""

    def step_s(self, *, prefill_tokens: int, decode_sequences: int, kv_tokens: int) -> float:
        """Seconds of a step.

        Example: base 7 ms, 14 us per sequence, 47 ns per token of context, 64 sequences of 3,072
        tokens, no prompt -> 7 + 0.9 + 9.2 = 17.1 ms.
        """
        return (
            self.base_s
            + prefill_tokens / self.prefill_tokens_per_s
            + decode_sequences * self.per_sequence_s
            + kv_tokens * self.per_kv_token_s
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory of one accelerator and what a model takes of it, in vLLM's own terms."""

    visible_gib: float
    """What the driver reports, which is less than the marketing number."""
    weights_gib: float
    """Weights on this accelerator."""
    non_torch_gib: float
    """Driver and communication buffers."""
    activation_bytes_per_sequence: int
    """Peak of the sampler for each of `max_num_seqs`: 38.5 bytes for every word of the vocabulary."""
    kv_bytes_per_token: int
    """KV cache of one token on this accelerator in the model's own precision."""

    def kv_available_bytes(self, *, utilization: float, max_num_seqs: int) -> int:
        """Bytes left for the KV cache; negative when the model does not fit."""
        activation = self.activation_bytes_per_sequence * max_num_seqs
        return (
            round((utilization * self.visible_gib - self.weights_gib - self.non_torch_gib) * _GIB)
            - activation
        )

    def blocks(self, *, utilization: float, max_num_seqs: int, kv_dtype_bytes: int) -> int:
        """Blocks of KV cache that fit. `kv_dtype_bytes` is 2, or 1 with an 8-bit KV cache."""
        available = self.kv_available_bytes(utilization=utilization, max_num_seqs=max_num_seqs)
        return max(0, available // (BLOCK_TOKENS * self.kv_bytes_per_token * kv_dtype_bytes // 2))
