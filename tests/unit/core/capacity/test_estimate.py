from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.capacity import models as m
from tests.unit.core.capacity import real_models

from stoker.core.capacity.catalog import ACCELERATORS
from stoker.core.capacity.engine_settings import EngineSettings, engine_settings
from stoker.core.capacity.estimate import estimate, explain
from stoker.core.capacity.kv_cache import concurrency
from stoker.core.capacity.memory import GIB
from stoker.core.capacity.weights import weights_size

LLAMA_8B = real_models.model("meta-llama--Meta-Llama-3.1-8B")
LLAMA_70B_FP8 = real_models.model("RedHatAI--Llama-3.3-70B-Instruct-FP8-dynamic")
QWEN_7B = real_models.model("Qwen--Qwen2.5-7B-Instruct")
QWEN3_8B = real_models.model("Qwen--Qwen3-8B")
DEEPSEEK_V3 = real_models.model("deepseek-ai--DeepSeek-V3")
GPT_OSS_20B = real_models.model("openai--gpt-oss-20b")


def given_words(model, accelerator, *words, environment=None, **more):
    row = ACCELERATORS[accelerator]
    engine = engine_settings(words, accelerator=row, environment=environment or {})
    assert isinstance(engine, EngineSettings)
    weights = weights_size(model, stored=None)
    return {"model": model, "weights": weights, "accelerator": row, "settings": engine, **more}


def of(model, accelerator, *words, **more):
    return estimate(**given_words(model, accelerator, *words, **more))


@pytest.mark.parametrize(
    ("model", "accelerator", "words", "requests", "context_length"),
    [
        pytest.param(QWEN_7B, "nvidia-l40s", (), 14, 32_768, id="a 7B on an L40S"),
        pytest.param(
            LLAMA_70B_FP8,
            "nvidia-h100-80gb",
            ("-tp", "2", "--max-model-len", "32768"),
            6,
            32_768,
            id="a 70B in fp8 on two H100",
        ),
        pytest.param(DEEPSEEK_V3, "nvidia-h200", ("-tp", "8"), 3, 163_840, id="DeepSeek-V3 on eight H200"),
        pytest.param(LLAMA_8B, "nvidia-h100-80gb", (), 3, 131_072, id="an 8B at its full length"),
        pytest.param(GPT_OSS_20B, "nvidia-l4", (), 1, 131_072, id="windows make room for a long request"),
        pytest.param(
            LLAMA_70B_FP8, "nvidia-h100-80gb", (), 0, 131_072, id="a 70B in fp8 on one H100 does not fit"
        ),
    ],
)
def test_requests_of_an_instance(model, accelerator, words, requests, context_length):
    got = of(model, accelerator, *words)
    assert (got.requests, got.context_length, got.fits) == (requests, context_length, requests > 0)


def test_the_tiny_model_on_a_cpu_has_as_many_blocks_as_its_engine_says():
    """Recorded from vLLM 0.32 for CPU: tests/unit/stand_in_engine/vllm-0.32.0.json."""
    tiny = m.uniform(2, 2, 32)
    tiny = replace(tiny, hidden_size=128, vocab_size=512, attention_heads=4, intermediate_size=256)
    got = of(tiny, "cpu", "--max-model-len", "512", environment={"VLLM_CPU_KVCACHE_SPACE": "1"})
    assert (got.cache.blocks, got.cache.block_size) == (16_384, 128)
    assert (got.kv_cache_tokens, got.concurrency, got.requests) == (2_097_152, 4096.0, 128)


def test_it_is_never_more_than_the_batch():
    assert of(LLAMA_8B, "nvidia-h100-80gb", "--max-model-len", "512", "--max-num-seqs", "8").requests == 8


def test_every_engine_of_an_instance_counts():
    got = of(QWEN_7B, "nvidia-l40s", "-dp", "2")
    each = concurrency(got.layout, got.cache, 32_768)
    assert (got.requests, got.concurrency) == (2 * int(each), 2 * each)


def test_a_model_that_keeps_nothing_is_limited_by_the_batch():
    got = of(m.model(None, None), "nvidia-l40s")
    assert (got.fits, got.requests, got.concurrency) == (True, 256, 256.0)


def test_without_a_length_vllm_takes_2048():
    got = of(m.model(m.full(8, 128), context_length=None), "nvidia-l40s")
    assert got.context_length == got.max_context_length == 2048


def test_auto_is_the_length_that_fits():
    short = of(LLAMA_8B, "nvidia-l4", "--max-model-len", "auto")
    assert short.fits
    assert short.context_length == short.max_context_length < 131_072
    assert of(LLAMA_8B, "nvidia-h200", "--max-model-len", "auto").context_length == 131_072


def test_auto_does_not_make_room_for_the_weights():
    got = of(LLAMA_70B_FP8, "nvidia-l4", "--max-model-len", "auto")
    assert (got.fits, got.context_length, got.max_context_length) == (False, 131_072, 0)


def test_a_measured_ratio_corrects_it():
    estimated, corrected = (of(LLAMA_8B, "nvidia-h100-80gb", correction=ratio) for ratio in (1.0, 0.5))
    assert corrected.cache.blocks == pytest.approx(estimated.cache.blocks / 2, abs=1)
    assert " x 0.500 as measured / 128 KiB a token" in explain(corrected)


def test_concurrency_and_requests_at_any_length():
    got = of(LLAMA_8B, "nvidia-h100-80gb")
    assert got.concurrency_at(32_768) == pytest.approx(4 * got.concurrency, rel=0.001)
    assert got.requests_at(32_768) == int(4 * got.concurrency)
    assert got.requests_at(200_000) == 0


def test_nothing_is_held_where_nothing_fits():
    got = of(LLAMA_70B_FP8, "nvidia-l4")
    assert (got.concurrency_at(16), got.requests_at(16), got.kv_cache_tokens) == (0.0, 0, 0)


@pytest.mark.parametrize(
    ("model", "accelerator", "words", "line"),
    [
        pytest.param(
            QWEN_7B,
            "nvidia-l40s",
            (),
            "0.92 x 44.4 GiB - 14.2 weights - 1.4 activation - 0.1 non-torch - 0.3 CUDA graphs = 24.9 GiB KV"
            " / 56 KiB a token = 465,904 tokens = 14.22 x 32,768",
            id="layers alike: tokens",
        ),
        pytest.param(
            GPT_OSS_20B,
            "nvidia-l4",
            ("--kv-cache-memory-bytes", "5G"),
            "5.0 GiB KV as set / 384 KiB a block = 13,653 blocks / 8,457 a request of 131,072"
            " = 1.61 requests",
            id="windows: blocks",
        ),
        pytest.param(
            LLAMA_8B,
            "nvidia-l40s",
            ("-tp", "2", "-dp", "2", "--kv-cache-memory-bytes", "20G"),
            "On each of 4: 20.0 GiB KV as set / 64 KiB a token = 327,680 tokens = 2.50 x 131,072",
            id="of one of several ranks",
        ),
        pytest.param(
            m.model(m.full(1, 1), bytes_per_element=1),
            "nvidia-l4",
            ("--kv-cache-memory-bytes", "1G"),
            "1.0 GiB KV as set / 2 B a token = 536,870,912 tokens = 4096.00 x 131,072",
            id="a few bytes",
        ),
        pytest.param(
            LLAMA_8B,
            "nvidia-l4",
            ("--kv-cache-memory-bytes", "20G"),
            "20.0 GiB KV as set, 14.5 GiB more than there is: no request fits",
            id="more than there is",
        ),
        pytest.param(
            m.model(None),
            "nvidia-l4",
            ("--kv-cache-memory-bytes", "1G"),
            "1.0 GiB KV as set: the model keeps nothing",
            id="a model without a cache",
        ),
    ],
)
def test_the_arithmetic_in_a_line(model, accelerator, words, line):
    assert explain(of(model, accelerator, *words)) == line


def test_the_arithmetic_of_what_does_not_fit():
    line = explain(of(LLAMA_70B_FP8, "nvidia-l40s"))
    assert line.startswith("0.92 x 44.4 GiB - 67.")
    assert line.endswith(" GiB KV: no request fits")


def test_what_is_not_known_is_said():
    engine = of(
        m.model(m.full(8, 128), unknown=("the config says nothing of this",), multimodal=True),
        "intel-gaudi3",
        "--max-model-len",
        "200000",
        "--config",
        "/etc/vllm.yaml",
    )
    assert engine.notes == (
        "the config says nothing of this",
        "`--config` names a file in the image that is not read; what it sets is not counted.",
        "The memory of `intel-gaudi3` is derived, and was not read in a log.",
        "200,000 tokens are more than the 131,072 that the model was made for; vLLM refuses that unless it "
        "is told to stretch the positions.",
        "It also takes pictures or sound: the memory that its encoder works in is not counted.",
    )


@pytest.mark.parametrize(
    ("model", "words", "note"),
    [
        pytest.param(
            QWEN_7B,
            ("-tp", "8"),
            "The 28 attention heads do not divide by 8 tensor-parallel ranks, so the engine would not start; "
            "use a count that divides them.",
            id="heads that do not divide",
        ),
        pytest.param(
            m.uniform(2, 8, 128),
            ("-pp", "4"),
            "The 2 layers can't be cut into 4 pipeline ranks; use fewer.",
            id="more pipeline ranks than layers",
        ),
        pytest.param(
            DEEPSEEK_V3,
            ("--kv-cache-dtype", "nvfp4", "-tp", "8"),
            "vLLM keeps no latent attention in `nvfp4`; use `fp8`, or `nvfp4_ds_mla` with a sparse model.",
            id="a type that latent vectors can't have",
        ),
    ],
)
def test_what_the_engine_would_refuse_does_not_fit(model, words, note):
    got = of(model, "nvidia-h200", *words)
    assert (got.fits, got.requests, got.max_context_length) == (False, 0, 0)
    assert got.notes == (note,)


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(real_models.NAMES),
    accelerator=st.sampled_from(sorted(ACCELERATORS)),
    length=st.integers(1, 300_000),
    ranks=st.sampled_from(["1", "2", "8"]),
    correction=st.floats(0.5, 1.5),
)
def test_no_requests_exactly_where_it_does_not_fit(name, accelerator, length, ranks, correction):
    words = ("--max-model-len", str(length), "-tp", ranks)
    got = of(real_models.model(name), accelerator, *words, correction=correction)
    assert got.fits == (got.requests > 0) == (length <= got.max_context_length)
    assert got.requests <= got.concurrency or not got.layout.groups


@settings(max_examples=20, deadline=None)
@given(name=st.sampled_from(real_models.NAMES), less=st.integers(1, 300), more=st.integers(1, 300))
def test_more_visible_memory_never_holds_fewer(name, less, more):
    words = given_words(real_models.model(name), "nvidia-h100-80gb", "--max-model-len", "4096")
    less, more = sorted((less, more))
    held = [
        estimate(**words | {"accelerator": replace(words["accelerator"], visible_bytes=gib * GIB)}).requests
        for gib in (less, more)
    ]
    assert held == sorted(held)
