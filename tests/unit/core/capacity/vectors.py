"""What engines printed and people published about KV caches, beside what is computed here.

Collected in the shared text on capacity, from public logs and reports; the source of each is in its
row. `vectors()` is a table that a command can print. A reading starts from what was published (the
memory, or the blocks and tokens where the memory was not) and is as exact as that: two decimals of a
GiB are within 0.2 %. Rows whose log is known to be wrong say so and compute the same wrong number.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.unit.core.capacity import models as m

from stoker.core.capacity.architecture import FullAttention, ModelConfig
from stoker.core.capacity.engine_settings import EngineSettings
from stoker.core.capacity.kv_cache import KvCache, KvLayout, concurrency, kv_cache, kv_layout

GIB = 1024**3
READING = 0.002
"""Part by which a reading may be off: the rounding of what was printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One published number, and what is computed for it."""

    name: str
    source: str
    published: float
    computed: float
    within: float
    """Most that the two may differ by; 0 where the printed digits must be the same."""


def vectors() -> list[Vector]:
    """All of them."""
    return [*_exact(), *_defects(), *_readings(), *_lengths(), *_pools(), *_windows(), *_worked()]


def _exact() -> Iterator[Vector]:
    """Only the configuration, the arguments and the logged memory go in; the printed digits come out."""
    fp8 = m.settings(kv_cache_dtype="fp8")
    rows: list[tuple[str, ModelConfig, EngineSettings, float, int, int, float, str]] = [
        (
            "H1 Qwen3.6-35B-A3B NVFP4, fp8 KV",
            m.QWEN3_6_35B_A3B,
            fp8,
            5.98 * GIB,
            131_072,
            567_978,
            4.33,
            "noonghunna/club-3090#612",
        ),
        (
            "H3 Qwen3.8-27B-FP8 on two, fp8 KV",
            m.QWEN3_5_27B,
            m.settings(kv_cache_dtype="fp8", tensor_parallel=2),
            4.99 * GIB,
            131_072,
            302_921,
            2.31,
            "mitchross/talos-argocd-proxmox#1995",
        ),
        (
            # The log says 9.92 GiB; the blocks are exact.
            "S1 Gemma-4-E2B",
            m.GEMMA_4_E2B,
            m.settings(),
            108_394 * 98_304,
            8192,
            1_062_157,
            129.66,
            "record 55764159779",
        ),
        (
            "Tiny Llama, vLLM 0.32 for CPU",
            m.TINY_LLAMA,
            m.settings(block_size=128, max_num_seqs=128),
            1.0 * GIB,
            512,
            2_097_152,
            4096.0,
            "tests/unit/stand_in_engine/vllm-0.32.0.json",
        ),
    ]
    for name, model, settings, memory, length, tokens, times, source in rows:
        layout, cache = _cache(model, settings, memory)
        yield _same(f"{name}: tokens", source, tokens, int(concurrency(layout, cache, length) * length))
        yield _same(f"{name}: concurrency", source, times, round(concurrency(layout, cache, length), 2))
    tiny = kv_cache(kv_layout(m.TINY_LLAMA, m.settings(block_size=128)), GIB)
    yield _same("Tiny Llama, vLLM 0.32 for CPU: blocks", rows[-1][-1], 16_384, tiny.blocks)

    m1 = kv_layout(m.MISTRAL_SMALL_4, m.settings(tensor_parallel=2))
    needed, held = (round(m1.bytes_per_request(tokens) / GIB, 2) for tokens in (1_048_576, 810_208))
    yield _same("M1 Mistral-Small-4 on two: GiB for 1,048,576 tokens", "kaito#2132", 22.5, needed)
    yield _same("M1 Mistral-Small-4 on two: GiB for 810,208 tokens", "kaito PR#2156", 17.39, held)

    heads = FullAttention(kv_heads=128, key_dim=192, value_dim=192)
    m3 = kv_layout(m.model(*[heads] * 61), m.settings(tensor_parallel=8))
    yield _same("M3 DeepSeek-V3 without MLA: bytes a token", "vllm#15928", 749_568, m3.bytes_per_token)
    for tokens, times in ((107_312, 3.27), (107_824, 3.29)):
        cache = kv_cache(m3, tokens * 749_568)
        got = round(concurrency(m3, cache, 32_768), 2)
        yield _same(f"M3 DeepSeek-V3 without MLA, {tokens:,} tokens: concurrency", "vllm#15928", times, got)


def _defects() -> Iterator[Vector]:
    """Hybrid models in older versions: the concurrency is right, the tokens are `blocks // groups * size`.

    The defect is vllm#40691. Its row 33 names no size; blocks of 784 tokens are those of the 27B.
    """
    next_80b = m.settings(tensor_parallel=2, prefix_caching=False)
    layout, cache = _cache(m.QWEN3_NEXT_80B, next_80b, 44.59 * GIB)
    source = "record 7292846353"
    yield _same(
        "H4 Qwen3-Next-80B on two: concurrency", source, 14.77, round(concurrency(layout, cache, 262_144), 2)
    )
    yield _same(
        "H4 Qwen3-Next-80B on two: tokens, 4x too few", source, 973_760, _tokens_of_old_logs(layout, cache)
    )

    alone = m.settings(prefix_caching=False)
    layout = kv_layout(m.QWEN3_5_27B, alone)
    cache = kv_cache(layout, 1487 * layout.block_bytes)
    yield _same(
        "33 Qwen3.5-27B: concurrency", "vllm#40691", 33.04, round(concurrency(layout, cache, 32_768), 2)
    )
    yield _same(
        "33 Qwen3.5-27B: tokens, 4x too few", "vllm#40691", 290_864, _tokens_of_old_logs(layout, cache)
    )


def _readings() -> Iterator[Vector]:
    """Tokens from the GiB that the log gives."""
    eagle = m.settings(speculative_layers=1)
    rows: list[tuple[str, ModelConfig, EngineSettings, float, int, str]] = [
        ("1 Llama-3.1-8B on a 3090", m.LLAMA_8B, m.settings(), 3.81, 31_232, "vllm#10517"),
        ("7 Qwen3-14B", m.QWEN3_14B, m.settings(), 6.51, 42_656, "LMCache#1739"),
        ("31 Llama-3.1-8B with EAGLE: 33 layers", m.LLAMA_8B, eagle, 51.63, 410_128, "record 56932817574"),
        ("37 llava-v1.6-mistral-7b", m.LLAMA_8B, m.settings(), 55.15, 451_744, "record 34680831065"),
        ("39 Qwen3-8B-FP8", m.QWEN3_8B, m.settings(), 8.60, 62_608, "record 34681159919"),
        ("45 Qwen3-30B-A3B on a GB10", m.QWEN3_30B_A3B, m.settings(), 4.85, 52_960, "record 62864980973"),
        ("48 Qwen2.5-0.5B, 48 GB", m.QWEN2_5_0_5B, m.settings(), 34.81, 3_041_600, "record 33122952765"),
        ("48 Qwen2.5-0.5B, AMD", m.QWEN2_5_0_5B, m.settings(), 9.25, 808_192, "record 68303605965"),
        ("49 Phi-4 in four bits", m.PHI_4, m.settings(), 45.21, 237_040, "record 6934259882"),
    ]
    for name, model, settings, gib, tokens, source in rows:
        layout, cache = _cache(model, settings, gib * GIB)
        yield _near(f"{name}: tokens", source, tokens, cache.blocks * layout.block_size)


def _lengths() -> Iterator[Vector]:
    """Concurrency at a length, from the tokens that the log gives."""
    two = m.settings(tensor_parallel=2)
    pipelined = m.settings(tensor_parallel=8, pipeline_parallel=4)
    rows: list[tuple[str, ModelConfig, EngineSettings, int, int, float, str]] = [
        ("1 Llama-3.1-8B on a 3090", m.LLAMA_8B, m.settings(), 31_232, 20_000, 1.56, "vllm#10517"),
        ("4 Llama-3.1-70B w8a8", m.LLAMA_70B, m.settings(), 22_096, 2048, 10.79, "vllm PR#12569"),
        ("7 Qwen3-14B", m.QWEN3_14B, m.settings(), 42_656, 32_768, 1.30, "LMCache#1739"),
        ("29 DeepSeek-V3.2, TP8 PP4", m.DEEPSEEK_V3_2, pipelined, 1_214_464, 163_840, 7.41, "vllm#31903"),
        (
            "31 Llama-3.1-8B with EAGLE",
            m.LLAMA_8B,
            m.settings(),
            410_128,
            131_072,
            3.13,
            "record 56932817574",
        ),
        ("37 llava-v1.6-mistral-7b", m.LLAMA_8B, m.settings(), 451_744, 4096, 110.29, "record 34680831065"),
        ("39 Qwen3-8B-FP8", m.QWEN3_8B, m.settings(), 62_608, 1024, 61.1, "record 34681159919"),
        ("43 Qwen3-32B", m.QWEN3_32B, m.settings(), 112_064, 40_960, 2.74, "record 67117542301"),
        (
            "44 Qwen3-Coder-30B-A3B",
            m.QWEN3_30B_A3B,
            m.settings(),
            150_272,
            131_072,
            1.15,
            "record 59866590576",
        ),
        ("45 Qwen3-30B-A3B", m.QWEN3_30B_A3B, two, 52_960, 16_384, 3.23, "record 62864980973"),
        (
            "48 Qwen2.5-0.5B, 48 GB",
            m.QWEN2_5_0_5B,
            m.settings(),
            3_041_600,
            32_768,
            92.82,
            "record 33122952765",
        ),
        ("48 Qwen2.5-0.5B, AMD", m.QWEN2_5_0_5B, m.settings(), 808_192, 2048, 394.62, "record 68303605965"),
        ("49 Phi-4 in four bits", m.PHI_4, m.settings(), 237_040, 512, 462.97, "record 6934259882"),
        ("53 Ministral-3-14B", m.MINISTRAL_3_14B, m.settings(), 636_976, 2048, 311.02, "record 60086085950"),
        ("53 Ministral-3-14B", m.MINISTRAL_3_14B, two, 1_421_984, 131_072, 10.85, "record 60086085950"),
        ("55 MiniMax-M2.7", m.MINIMAX_M2_7, two, 244_576, 131_072, 1.87, "record 54924313720"),
        # One pool at two lengths: 337.01 requests of 3,200 are the tokens of 8.23 of 131,072.
        ("57 Llama-3.3-70B", m.LLAMA_70B, two, 337 * 3200, 131_072, 8.23, "record 12900719694"),
        ("57 Llama-3.3-70B", m.LLAMA_70B, two, 1_078_432, 3200, 337.01, "record 12900719694"),
        ("59 an 8B", m.LLAMA_8B, m.settings(), 435_036, 4096, 106.21, "record 71074943845"),
        ("60 the example of vLLM's documentation", m.LLAMA_8B, m.settings(), 643_232, 40_960, 15.70, "docs"),
    ]
    for name, model, settings, tokens, length, times, source in rows:
        layout = kv_layout(model, settings)
        cache = kv_cache(layout, round(tokens / layout.block_size) * layout.block_bytes)
        computed = concurrency(layout, cache, length)
        yield _near(f"{name}: concurrency at {length:,}", source, times, computed, last_digit=0.005)


def _pools() -> Iterator[Vector]:
    """GiB per rank that the logged tokens take, for rows that do not give the memory."""
    four = m.settings(tensor_parallel=4)
    two_by_two = m.settings(tensor_parallel=2, pipeline_parallel=2)
    fp8 = m.settings(kv_cache_dtype="fp8")
    rows: list[tuple[str, ModelConfig, EngineSettings, int, float, str]] = [
        ("4 Llama-3.1-70B w8a8", m.LLAMA_70B, m.settings(), 22_096, 6.74, "vllm PR#12569"),
        (
            "11 Qwen2.5-32B on two",
            m.QWEN2_5_32B,
            m.settings(tensor_parallel=2),
            18_144,
            2.2,
            "LMCache#1241",
        ),
        ("11 Qwen3-30B on two", m.QWEN3_30B_A3B, m.settings(tensor_parallel=2), 87_584, 4.0, "LMCache#1241"),
        ("23 Qwen3-8B", m.QWEN3_8B, m.settings(), 20_272, 2.78, "kaito PR#2156"),
        ("26 MiniMax-M2.7, TP2 PP2", m.MINIMAX_M2_7, two_by_two, 117_264, 6.93, "kaito PR#2156"),
        ("43 Qwen3-32B", m.QWEN3_32B, m.settings(), 112_064, 27.4, "record 67117542301"),
        ("44 Qwen3-Coder-30B-A3B", m.QWEN3_30B_A3B, m.settings(), 150_272, 13.8, "record 59866590576"),
        ("53 Ministral-3-14B", m.MINISTRAL_3_14B, m.settings(), 636_976, 97.2, "record 60086085950"),
        ("53 Ministral-3-14B, fp8 KV", m.MINISTRAL_3_14B, fp8, 1_421_984, 108.5, "record 60086085950"),
        ("55 MiniMax-M2.7, TP4", m.MINIMAX_M2_7, four, 244_576, 14.5, "record 54924313720"),
        ("59 an 8B", m.LLAMA_8B, m.settings(), 435_036, 53.1, "record 71074943845"),
        ("59 an 8B", m.LLAMA_8B, m.settings(), 382_976, 46.8, "record 71074943845"),
        ("59 an 8B", m.LLAMA_8B, m.settings(), 53_412, 6.5, "record 71074943845"),
        ("59 an 8B", m.LLAMA_8B, m.settings(), 456_131, 55.7, "record 71074943845"),
        ("57 Llama-3.3-70B, TP8", m.LLAMA_70B, m.settings(tensor_parallel=8), 1_078_000, 41.1, "12900719694"),
    ]
    for name, model, settings, tokens, gib, source in rows:
        computed = kv_layout(model, settings).bytes_per_token * tokens / GIB
        yield _near(f"{name}: GiB of {tokens:,} tokens", source, gib, computed, last_digit=0.05)


def _windows() -> Iterator[Vector]:
    """Models with windows, by the group method; the notes of the worked numbers."""
    wide = m.settings(max_num_batched_tokens=8192)
    rows: list[tuple[str, ModelConfig, EngineSettings, float, int, float, str]] = [
        ("14 gpt-oss-20b", m.GPT_OSS_20B, wide, 50.28 * GIB, 16_000, 90.3, "llm-d-planner"),
        ("14 gpt-oss-20b", m.GPT_OSS_20B, wide, 50.28 * GIB, 131_072, 15.8, "llm-d-planner"),
        ("15 gpt-oss-120b", m.GPT_OSS_120B, wide, 3.33 * GIB, 16_000, 4.0, "llm-d-planner"),
        ("17 Llama-3.1-8B", m.LLAMA_8B, wide, 51.38 * GIB, 16_000, 26.3, "llm-d-planner"),
    ]
    for name, model, settings, memory, length, times, source in rows:
        layout, cache = _cache(model, settings, memory)
        computed = concurrency(layout, cache, length)
        yield _near(f"{name}: concurrency at {length:,}", source, times, computed, last_digit=0.05)
    layout = kv_layout(m.GPT_OSS_20B, wide)
    yield _same(
        "gpt-oss-20b: blocks of 16,000 tokens", "worked note", 1521, layout.blocks_per_request(16_000)
    )

    # 50 GB, decimal and binary: the jump from 55k to 525k tokens when windows were first counted.
    for memory, tokens in ((50e9, 494_000), (50 * GIB, 530_000)):
        layout, cache = _cache(m.GEMMA_4_31B, m.settings(), memory)
        computed = concurrency(layout, cache, 131_072) * 131_072
        yield _near(f"32 Gemma-4-31B in {memory / 1e9:.1f} GB: tokens", "vllm#43308", tokens, computed)
    whole = kv_layout(m.GEMMA_4_31B, m.settings(hybrid_kv_cache=False))
    yield _near(
        "32 Gemma-4-31B in 50 GB, windows kept whole: tokens",
        "vllm#43308",
        55_500,
        50e9 / whole.bytes_per_token,
    )


def _worked() -> Iterator[Vector]:
    """Bytes of one more token, and GiB of a request of 8,192 tokens."""
    tp8 = m.settings(tensor_parallel=8)
    ds_mla = m.settings(kv_cache_dtype="fp8_ds_mla", tensor_parallel=8)
    rows: list[tuple[str, ModelConfig, EngineSettings, int, float | None]] = [
        ("Llama-3.1-8B", m.LLAMA_8B, m.settings(), 131_072, 1.00),
        ("Llama-3.1-70B", m.LLAMA_70B, m.settings(), 327_680, 2.50),
        ("Llama-3.1-405B", m.uniform(126, 8, 128), m.settings(), 516_096, 3.94),
        ("Qwen2.5-0.5B", m.QWEN2_5_0_5B, m.settings(), 12_288, 0.09),
        ("Qwen2.5-1.5B", m.uniform(28, 2, 128), m.settings(), 28_672, 0.22),
        ("Qwen2.5-7B", m.uniform(28, 4, 128), m.settings(), 57_344, 0.44),
        ("Qwen2.5-32B", m.QWEN2_5_32B, m.settings(), 262_144, 2.00),
        ("Phi-4", m.PHI_4, m.settings(), 204_800, 1.56),
        ("Qwen3-8B", m.QWEN3_8B, m.settings(), 147_456, 1.13),
        ("Qwen3-14B", m.QWEN3_14B, m.settings(), 163_840, 1.25),
        ("Qwen3-30B-A3B", m.QWEN3_30B_A3B, m.settings(), 98_304, 0.75),
        ("Qwen3-235B-A22B", m.uniform(94, 4, 128), m.settings(), 192_512, 1.47),
        ("MiniMax-M2.7", m.MINIMAX_M2_7, m.settings(), 253_952, 1.94),
        ("DeepSeek-V3 on each of eight", m.DEEPSEEK_V3, tp8, 70_272, 0.54),
        ("DeepSeek-V3, fp8_ds_mla", m.DEEPSEEK_V3, ds_mla, 40_016, None),
        ("Mistral-Small-4", m.MISTRAL_SMALL_4, m.settings(), 23_040, 0.18),
        ("Gemma-2-9B, full layers", m.GEMMA_2_9B, m.settings(), 172_032, None),
        ("Gemma-2-9B, all kept whole", m.GEMMA_2_9B, m.settings(hybrid_kv_cache=False), 344_064, None),
        ("gpt-oss-20b, full layers", m.GPT_OSS_20B, m.settings(), 24_576, None),
        ("gpt-oss-120b, full layers", m.GPT_OSS_120B, m.settings(), 36_864, None),
        ("Gemma-4-31B, full layers", m.GEMMA_4_31B, m.settings(), 81_920, None),
        ("Gemma-4-31B, all kept whole", m.GEMMA_4_31B, m.settings(hybrid_kv_cache=False), 901_120, None),
    ]
    for name, model, settings, each, gib in rows:
        layout = kv_layout(model, settings)
        yield _same(f"{name}: bytes a token", "worked numbers", each, layout.bytes_per_token)
        if gib is not None:
            computed = round(layout.bytes_per_request(8192) / GIB, 3)
            yield _near(f"{name}: GiB of 8,192 tokens", "worked numbers", gib, computed, last_digit=0.005)
    # Beside states, blocks are longer than they need be, and a token pays for its share of that.
    for name, model, each in (
        ("Qwen3-Next-80B", m.QWEN3_NEXT_80B, 24_576),
        ("Qwen3.5-35B-A3B", m.QWEN3_6_35B_A3B, 20_480),
        ("Qwen3.5-27B", m.QWEN3_5_27B, 65_536),
    ):
        yield _same(
            f"{name}: bytes a token", "worked numbers", each, kv_layout(model, m.settings()).bytes_per_token
        )


def _cache(model: ModelConfig, settings: EngineSettings, memory: float) -> tuple[KvLayout, KvCache]:
    layout = kv_layout(model, settings)
    return layout, kv_cache(layout, int(memory))


def _tokens_of_old_logs(layout: KvLayout, cache: KvCache) -> int:
    return cache.blocks // len(layout.groups) * layout.block_size


def _same(name: str, source: str, published: float, computed: float) -> Vector:
    return Vector(name=name, source=source, published=published, computed=computed, within=0)


def _near(name: str, source: str, published: float, computed: float, *, last_digit: float = 0) -> Vector:
    """Within 0.2 %, or half of the last digit printed where that is more."""
    within = max(READING * published, last_digit)
    return Vector(name=name, source=source, published=published, computed=computed, within=within)
