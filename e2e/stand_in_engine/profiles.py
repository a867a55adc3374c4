"""Which accelerator and model the timing stands for, each number with where it comes from.

`README.md` repeats the table for people, and a test drives the scheduler with these numbers and
compares with the readings.
"""

from dataclasses import dataclass

from e2e.stand_in_engine.timing import Memory, StepTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Everything that differs between one accelerator with one model and another."""

    name: str
    timing: StepTiming
    memory: Memory
    load_s: float
    """Reading the weights from the node's disk. 4.4 s for 16 GB was read on H100 with NVMe, 20.6 s for
    65 GB; the other profiles scale with bytes, 12.4 s for 26 GB on L40S."""
    warmup_s: float
    """Profiling, compiling and capturing graphs: 18 s were read for an 8B model, taken for all."""
    max_num_seqs: int
    """vLLM's default for this accelerator."""
    max_num_batched_tokens: int
    """vLLM's default for this accelerator."""


def _profiles(*profiles: Profile) -> dict[str, Profile]:
    return {profile.name: profile for profile in profiles}


PROFILES = _profiles(
    # For tests of behaviour: everything takes a moment, and 64 Ki tokens of KV cache.
    Profile(
        name="fast",
        timing=StepTiming(
            base_s=0.002, per_sequence_s=5e-6, per_kv_token_s=1e-9, prefill_tokens_per_s=200_000
        ),
        memory=Memory(
            visible_gib=2.0,
            weights_gib=0.84,
            non_torch_gib=0.0,
            activation_bytes_per_sequence=0,
            kv_bytes_per_token=16_384,
        ),
        load_s=0.02,
        warmup_s=0.02,
        max_num_seqs=256,
        max_num_batched_tokens=2048,
    ),
    # Qwen3-8B, 16 bit, one H100 SXM. Set on readings 1, 15, 16 and 28 of one series (vLLM 0.30):
    # inter-token latency 6.86, 9.46, 17.05 and 18.08 ms at 1, 16, 64 and 256 streams; prefill from
    # time to first token 34 ms at 1,024 and 254 ms at 8,192 tokens. Reading 2 (7.3 ms at 8,192) was
    # left out and comes out at 7.2.
    Profile(
        name="qwen3-8b-h100",
        timing=StepTiming(
            base_s=0.0068, per_sequence_s=14e-6, per_kv_token_s=46.8e-9, prefill_tokens_per_s=32_600
        ),
        memory=Memory(
            visible_gib=79.18,
            weights_gib=15.3,
            non_torch_gib=0.13,
            activation_bytes_per_sequence=5_849_536,
            kv_bytes_per_token=147_456,
        ),
        load_s=4.4,
        warmup_s=18.0,
        max_num_seqs=1024,
        max_num_batched_tokens=8192,
    ),
    # Llama-3.1-8B, 16 bit, one L40S. No reading of this pair was found: memory traffic (16.06 GB at
    # 864 GB/s, 90 % of it reached) + 50 us a layer, prefill at half of 362 TFLOPS. The formula was
    # set on readings of other accelerators, 22 of 29 within 10 %.
    Profile(
        name="llama-3.1-8b-l40s",
        timing=StepTiming(
            base_s=0.0223, per_sequence_s=14e-6, per_kv_token_s=168.6e-9, prefill_tokens_per_s=11_270
        ),
        memory=Memory(
            visible_gib=44.42,
            weights_gib=14.96,
            non_torch_gib=0.13,
            activation_bytes_per_sequence=4_937_856,
            kv_bytes_per_token=131_072,
        ),
        load_s=7.6,
        warmup_s=18.0,
        max_num_seqs=256,
        max_num_batched_tokens=2048,
    ),
    # Llama-3.3-70B, 8-bit weights and KV cache, two H100 SXM. Set on reading 9 (18.58 ms between
    # tokens and 407 ms to the first, 5,000/500, one stream); readings 19 and 33 (25 and 50 streams,
    # 623 and 814 tok/s) were left out and are what the test compares with.
    Profile(
        name="llama-3.3-70b-fp8-2xh100",
        timing=StepTiming(
            base_s=0.0184, per_sequence_s=14e-6, per_kv_token_s=27.2e-9, prefill_tokens_per_s=12_870
        ),
        memory=Memory(
            visible_gib=79.18,
            weights_gib=33.88,
            non_torch_gib=0.6,
            activation_bytes_per_sequence=4_937_856,
            kv_bytes_per_token=163_840,
        ),
        load_s=23.0,
        warmup_s=18.0,
        max_num_seqs=1024,
        max_num_batched_tokens=8192,
    ),
)
