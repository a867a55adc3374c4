"""The bytes of the weights are those that engines logged, from whichever source is at hand."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.capacity.models import settings
from tests.unit.core.capacity.real_models import NAMES, model

from stoker.core.capacity.memory import GIB
from stoker.core.capacity.quantization import with_argument
from stoker.core.capacity.weights import StoredWeights, weights_size

QWEN = "Qwen--Qwen2.5-7B-Instruct"


def loaded(name, quantization=None, **changes):
    """A model as the engine has it, with its `--quantization`."""
    read = model(name)
    return replace(read, quantization=with_argument(read.quantization, quantization), **changes)


def from_config(name, quantization=None):
    return weights_size(loaded(name, quantization), stored=None)


@pytest.mark.parametrize(
    ("name", "ranks", "gib", "tolerance"),
    [
        pytest.param("meta-llama--Meta-Llama-3.1-8B", 1, 14.99, 0.003, id="Llama-3.1-8B"),
        pytest.param("Qwen--Qwen2.5-7B-Instruct", 1, 14.19, 0.002, id="Qwen2.5-7B"),
        pytest.param("Qwen--Qwen2.5-7B-Instruct-AWQ", 1, 5.20, 0.003, id="AWQ is 0.37 of it, not a quarter"),
        pytest.param("RedHatAI--Llama-3.3-70B-Instruct-FP8-dynamic", 1, 67.72, 0.002, id="70B-FP8"),
        pytest.param("RedHatAI--Llama-3.3-70B-Instruct-FP8-dynamic", 2, 33.88, 0.002, id="70B-FP8 on two"),
        pytest.param("Qwen--Qwen3-32B", 1, 61.03, 0.001, id="Qwen3-32B"),
        pytest.param("Qwen--Qwen3-32B", 2, 30.59, 0.003, id="Qwen3-32B on two"),
        pytest.param("openai--gpt-oss-20b", 1, 13.47, 0.004, id="MXFP4 with padded experts, 20b"),
        pytest.param("openai--gpt-oss-120b", 1, 64.38, 0.003, id="MXFP4 with padded experts, 120b"),
        pytest.param("unsloth--phi-4-bnb-4bit", 1, 8.63, 0.021, id="Phi-4 bnb: 0.17 GiB more, not explained"),
        pytest.param("Qwen--Qwen3-Next-80B-A3B-Instruct", 2, 74.28, 0.001, id="Qwen3-Next on two"),
        pytest.param("Qwen--Qwen3-0.6B", 1, 1.12, 0.01, id="Qwen3-0.6B"),
        pytest.param("Qwen--Qwen3-14B", 1, 27.52, 0.001, id="Qwen3-14B"),
        pytest.param("Qwen--Qwen3-30B-A3B", 1, 56.9, 0.001, id="Qwen3-30B-A3B"),
        pytest.param("Qwen--Qwen3-235B-A22B", 1, 438, 0.001, id="Qwen3-235B-A22B"),
        pytest.param("Qwen--Qwen3-235B-A22B-FP8", 1, 220, 0.005, id="the same in FP8"),
        pytest.param("google--gemma-4-31B-it", 1, 58.25, 0.003, id="Gemma-4-31B"),
        pytest.param("Qwen--Qwen3.5-27B", 1, 51.75, 0.02, id="Qwen3.5-27B: files with a drafter layer"),
        pytest.param("Qwen--Qwen3.5-35B-A3B", 1, 67, 0.03, id="Qwen3.5-35B-A3B: likewise"),
        pytest.param(
            "mistralai--Mistral-Small-3.2-24B-Instruct-2506", 1, 44.76, 0.007, id="Mistral-Small-3.2"
        ),
        pytest.param("mistralai--Mistral-Small-4-119B-2603", 1, 112.6, 0.007, id="Mistral-Small-4"),
        pytest.param("MiniMaxAI--MiniMax-M2.7", 1, 214.3, 0.001, id="MiniMax-M2.7"),
        pytest.param("moonshotai--Kimi-K2.5", 1, 554, 0.003, id="Kimi-K2.5: four bits in the experts only"),
        pytest.param(
            "deepseek-ai--DeepSeek-V3", 1, 641.3, 0.02, id="DeepSeek-V3: files with a drafter layer"
        ),
    ],
)
def test_the_config_tells_what_engines_loaded(name, ranks, gib, tolerance):
    computed = from_config(name).per_rank(settings(tensor_parallel=ranks))
    assert computed / GIB == pytest.approx(gib, rel=tolerance)


def headers(name, dtype="BF16"):
    """The tensors that the files of a dense Qwen2 model hold."""
    read = model(name)
    hidden, inner, kind = read.hidden_size, read.intermediate_size, read.layers[0]
    queries, keys = read.attention_heads * kind.key_dim, kind.kv_heads * kind.key_dim
    shapes = {"model.embed_tokens.weight": (read.vocab_size, hidden), "model.norm.weight": (hidden,)}
    shapes["lm_head.weight"] = (read.vocab_size, hidden)
    for layer in range(len(read.layers)):
        at = f"model.layers.{layer}"
        for part, size in (("q", queries), ("k", keys), ("v", keys)):
            shapes[f"{at}.self_attn.{part}_proj.weight"] = (size, hidden)
            shapes[f"{at}.self_attn.{part}_proj.bias"] = (size,)
        shapes[f"{at}.self_attn.o_proj.weight"] = (hidden, queries)
        shapes[f"{at}.mlp.gate_proj.weight"] = (inner, hidden)
        shapes[f"{at}.mlp.up_proj.weight"] = (inner, hidden)
        shapes[f"{at}.mlp.down_proj.weight"] = (hidden, inner)
        shapes[f"{at}.input_layernorm.weight"] = (hidden,)
        shapes[f"{at}.post_attention_layernorm.weight"] = (hidden,)
    return {tensor: (dtype, shape) for tensor, shape in shapes.items()}


def from_headers(name, tensors, quantization=None):
    return weights_size(loaded(name, quantization), stored=StoredWeights(total_bytes=0, tensors=tensors))


def test_headers_count_every_tensor():
    tensors = headers(QWEN)
    computed = from_headers(QWEN, tensors)
    assert computed.total == sum(2 * math.prod(shape) for _, shape in tensors.values())
    assert computed.basis == "headers"
    assert computed.total == pytest.approx(from_config(QWEN).total, rel=0.001)


def test_float32_in_files_is_cast_while_it_is_loaded():
    assert from_headers(QWEN, headers(QWEN, "F32")).total == from_headers(QWEN, headers(QWEN)).total


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        pytest.param({"mtp.fc.weight": ("BF16", (10, 10))}, {}, id="a drafter is not loaded"),
        pytest.param(
            {"model.layers.28.a.weight": ("BF16", (10, 10))}, {}, id="nor as a layer after the last"
        ),
        pytest.param(
            {"visual.blocks.40.a.weight": ("BF16", (10, 10))}, {"total": 200}, id="the encoder counts its own"
        ),
        pytest.param(
            {"model.layers.0.mlp.gate.weight": ("BF16", (10, 10))},
            {"total": 200, "replicated": 200},
            id="a router is on every rank",
        ),
        pytest.param(
            {"model.layers.0.self_attn.kv_a_proj_with_mqa.weight": ("F8_E4M3", (10, 10))},
            {"total": 100, "replicated": 100},
            id="so is a projection to compressed vectors, here in eight bits",
        ),
        pytest.param(
            {"model.layers.0.mlp.experts.0.w1.weight_scale": ("F32", (10, 10))},
            {"total": 400, "experts": 400},
            id="scales stay as they are",
        ),
        pytest.param(
            {"model.layers.0.mlp.experts.0.w1.weight": ("U8", (10, 10))},
            {"total": 100, "experts": 100},
            id="packed bytes",
        ),
        pytest.param({"model.layers.0.a.qweight": ("I32", (10, 10))}, {"total": 400}, id="packed words"),
        pytest.param({"model.layers.0.a.weight": ("F4", (10, 10))}, {"total": 50}, id="four bits"),
        pytest.param(
            {"model.embed_tokens.weight": ("BF16", (65, 10))},
            {"total": 128 * 20, "embedding": 128 * 20},
            id="the vocabulary is padded to 64",
        ),
        pytest.param(
            {"lm_head.weight": ("BF16", (64, 10))}, {"total": 1280, "output_head": 1280}, id="the output head"
        ),
        pytest.param({"lm_head.weight": ("BF16", ())}, {"total": 2, "output_head": 2}, id="a single number"),
    ],
)
def test_each_tensor_goes_where_the_engine_holds_it(tensor, expected):
    computed = from_headers(QWEN, tensor)
    parts = {
        name: getattr(computed, name)
        for name in ("total", "experts", "replicated", "embedding", "output_head")
    }
    assert {name: size for name, size in parts.items() if size} == expected


def test_a_tied_output_head_in_the_files_is_not_loaded():
    assert from_headers("Qwen--Qwen2.5-0.5B-Instruct", {"lm_head.weight": ("BF16", (64, 10))}).total == 0


def test_the_sum_of_the_files_is_taken_with_the_configs_proportions():
    stored = StoredWeights(total_bytes=round(14.19 * GIB), tensors=None)
    computed = weights_size(model(QWEN), stored=stored)
    assert computed.basis == "files"
    assert computed.total == pytest.approx(stored.total_bytes, abs=2)
    assert 0 < computed.replicated < computed.embedding < computed.total


def test_the_sum_of_float32_files_is_halved():
    stored = StoredWeights(total_bytes=36_967_000_000, tensors=None)
    computed = weights_size(model("google--gemma-2-9b"), stored=stored)
    assert computed.total / GIB == pytest.approx(17.2, abs=0.02)


def test_the_sum_of_files_is_padded_as_the_engine_pads_experts():
    stored = StoredWeights(total_bytes=13_761_264_768, tensors=None)
    computed = weights_size(model("openai--gpt-oss-20b"), stored=stored)
    assert computed.total / GIB == pytest.approx(13.47, abs=0.03)


@pytest.mark.parametrize(
    ("method", "share"),
    [
        pytest.param("fp8", 0.572, id="FP8: embeddings stay"),
        pytest.param("bitsandbytes", 0.364, id="bitsandbytes: four bits and scales"),
        pytest.param("unheard-of", 1.0, id="a method that the engine will refuse changes nothing"),
    ],
)
def test_quantizing_on_the_fly_is_the_same_from_every_source(method, share):
    plain = from_config(QWEN).total
    stored = StoredWeights(total_bytes=plain, tensors=None)
    assert from_config(QWEN, method).total / plain == pytest.approx(share, abs=0.002)
    summed = weights_size(loaded(QWEN, method), stored=stored)
    assert summed.total / plain == pytest.approx(share, abs=0.002)
    assert from_headers(QWEN, headers(QWEN), method).total / plain == pytest.approx(share, abs=0.002)


@pytest.mark.parametrize(
    ("quantization", "share"),
    [
        pytest.param(None, 2.0, id="all of it"),
        pytest.param("fp8", 1.0 + 0.143, id="only what fp8 leaves: the vocabulary, 14 % of 16 bits"),
    ],
)
def test_float32_doubles_what_is_not_quantized_from_every_source(quantization, share):
    plain = from_config(QWEN, quantization).total
    wide = loaded(QWEN, quantization, bytes_per_element=4)
    files = StoredWeights(total_bytes=from_config(QWEN).total, tensors=None)
    tensors = StoredWeights(total_bytes=0, tensors=headers(QWEN))
    for stored in (None, files, tensors):
        assert weights_size(wide, stored=stored).total / plain == pytest.approx(
            share, abs=0.15 if quantization else 0.001
        )


def test_an_argument_does_not_quantize_what_is_quantized_already():
    assert from_config("Qwen--Qwen2.5-7B-Instruct-AWQ", "fp8") == from_config("Qwen--Qwen2.5-7B-Instruct-AWQ")


@pytest.mark.parametrize(
    ("name", "stages", "gib"),
    [
        pytest.param("meta-llama--Meta-Llama-3.1-8B", 1, 14.96, id="one stage holds all"),
        pytest.param("meta-llama--Meta-Llama-3.1-8B", 2, 7.48, id="two halves, a vocabulary each"),
        pytest.param(
            "meta-llama--Meta-Llama-3.1-8B", 3, 13.0 / 32 * 11 + 0.98, id="11 layers and the embedding"
        ),
        pytest.param("Qwen--Qwen2.5-1.5B-Instruct", 2, (2.88 + 0.43) / 2, id="a tied embedding is on both"),
    ],
)
def test_the_largest_pipeline_stage_counts(name, stages, gib):
    computed = from_config(name).per_rank(settings(pipeline_parallel=stages))
    assert computed / GIB == pytest.approx(gib, rel=0.05)


def test_projections_to_compressed_vectors_are_whole_on_every_rank():
    weights = from_config("deepseek-ai--DeepSeek-V3")
    rank = weights.per_rank(settings(tensor_parallel=8))
    assert rank == pytest.approx((weights.total - weights.replicated) / 8 + weights.replicated, abs=1)
    assert weights.replicated / GIB == pytest.approx(61 * 7168 * (1536 + 512 + 64) / GIB, rel=0.3)


def test_engines_side_by_side_share_the_experts_and_repeat_the_rest():
    weights = from_config("Qwen--Qwen3-30B-A3B")
    two = weights.per_rank(settings(data_parallel=2))
    assert two == pytest.approx(weights.total - weights.experts / 2, abs=1)
    assert from_config("Qwen--Qwen3-8B").per_rank(settings(data_parallel=2)) == from_config(
        "Qwen--Qwen3-8B"
    ).per_rank(settings())


def test_expert_parallelism_changes_who_holds_an_expert_and_not_how_much():
    weights = from_config("Qwen--Qwen3-30B-A3B")
    apart = weights.per_rank(settings(tensor_parallel=4, expert_parallel=True))
    assert apart == weights.per_rank(settings(tensor_parallel=4))


@given(st.sampled_from(NAMES), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]))
def test_ranks_together_hold_at_least_all_weights(name, tensor, pipeline):
    computed = from_config(name)
    rank = computed.per_rank(settings(tensor_parallel=tensor, pipeline_parallel=pipeline))
    assert computed.total <= (rank + 1) * tensor * pipeline
    assert rank <= computed.total
