"""A config is read as the engine reads it, whatever names it uses, and never raises."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.capacity.real_models import JSON, KEYS, NAMES, broken_configs, model

from stoker.core.capacity.architecture import (
    ChunkedAttention,
    FullAttention,
    LatentAttention,
    LinearState,
    ModelConfig,
    SlidingWindow,
)
from stoker.core.capacity.model_config import read_model_config
from stoker.core.model import Refusal

SMALL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "vocab_size": 1000,
}


def full(heads, dim, value_dim=None):
    return FullAttention(kv_heads=heads, key_dim=dim, value_dim=value_dim or dim)


def window(heads, dim, size, value_dim=None):
    return SlidingWindow(kv_heads=heads, key_dim=dim, value_dim=value_dim or dim, window=size)


def latent(rank, rope, indexer=0):
    return LatentAttention(rank=rank, rope_dim=rope, indexer_dim=indexer)


def state(keys, values, dk, dv, kernel=4, width=None, checkpoints=0):
    return LinearState(
        key_heads=keys,
        value_heads=values,
        key_dim=dk,
        value_dim=dv,
        conv_kernel=kernel,
        state_bytes_per_element=width,
        checkpoints=checkpoints,
    )


def small(**changes):
    read = read_model_config({**SMALL, **changes})
    assert isinstance(read, ModelConfig), read
    return read


@pytest.mark.parametrize("name", NAMES)
def test_every_real_config_is_read(name):
    assert len(model(name).layers) > 0


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("meta-llama--Meta-Llama-3.1-8B", {full(8, 128): 32}),
        ("meta-llama--Meta-Llama-3.1-70B", {full(8, 128): 80}),
        ("meta-llama--Meta-Llama-3.1-405B", {full(8, 128): 126}),
        ("Qwen--Qwen2.5-0.5B-Instruct", {full(2, 64): 24}),
        ("Qwen--Qwen2.5-1.5B-Instruct", {full(2, 128): 28}),
        ("Qwen--Qwen2.5-7B-Instruct", {full(4, 128): 28}),
        ("Qwen--Qwen2.5-32B-Instruct", {full(8, 128): 64}),
        ("Qwen--Qwen2.5-72B-Instruct", {full(8, 128): 80}),
        ("mistralai--Mistral-7B-Instruct-v0.3", {full(8, 128): 32}),
        ("mistralai--Mistral-7B-v0.1", {window(8, 128, 4096): 32}),
        ("mistralai--Mistral-Small-24B-Instruct-2501", {full(8, 128): 40}),
        ("mistralai--Mixtral-8x7B-v0.1", {full(8, 128): 32}),
        ("microsoft--phi-4", {full(10, 128): 40}),
        ("google--gemma-2-9b", {window(8, 256, 4096): 21, full(8, 256): 21}),
        ("google--gemma-3-27b-it", {window(16, 128, 1024): 52, full(16, 128): 10}),
        ("google--gemma-4-31B-it", {window(16, 256, 1024): 50, full(4, 512): 10}),
        ("google--gemma-4-E2B-it", {window(1, 256, 512): 12, full(1, 512): 3, None: 20}),
        ("Qwen--Qwen3-8B", {full(8, 128): 36}),
        ("Qwen--Qwen3-14B", {full(8, 128): 40}),
        ("Qwen--Qwen3-32B", {full(8, 128): 64}),
        ("Qwen--Qwen3-30B-A3B", {full(4, 128): 48}),
        ("Qwen--Qwen3-235B-A22B", {full(4, 128): 94}),
        ("deepseek-ai--DeepSeek-V3", {latent(512, 64): 61}),
        ("deepseek-ai--DeepSeek-V3.2", {latent(512, 64, 128): 61}),
        ("moonshotai--Kimi-K2-Instruct", {latent(512, 64): 61}),
        ("mistralai--Mistral-Small-4-119B-2603", {latent(256, 64): 36}),
        ("openai--gpt-oss-20b", {window(8, 64, 128): 12, full(8, 64): 12}),
        ("openai--gpt-oss-120b", {window(8, 64, 128): 18, full(8, 64): 18}),
        ("Qwen--Qwen3-Next-80B-A3B-Instruct", {state(16, 32, 128, 128): 36, full(2, 256): 12}),
        ("Qwen--Qwen3.5-35B-A3B", {state(16, 32, 128, 128, width=4): 30, full(2, 256): 10}),
        ("Qwen--Qwen3.5-27B", {state(16, 48, 128, 128, width=4): 48, full(4, 256): 16}),
        ("MiniMaxAI--MiniMax-M2.7", {full(8, 128): 62}),
        ("XiaomiMiMo--MiMo-V2-Flash", {full(4, 192, 128): 9, window(8, 192, 128, 128): 39}),
        (
            "meta-llama--Llama-4-Scout-17B-16E-Instruct",
            {ChunkedAttention(kv_heads=8, key_dim=128, value_dim=128, chunk=8192): 36, full(8, 128): 12},
        ),
        (
            "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
            {state(8, 64, 128, 64, width=4, checkpoints=1): 23, full(2, 128): 6, None: 23},
        ),
        ("nvidia--Llama-3_3-Nemotron-Super-49B-v1", {full(8, 128): 49, None: 31}),
        ("ai21labs--Jamba-v0.1", {state(0, 8192, 16, 1): 28, full(8, 128): 4}),
        ("ibm-ai-platform--Bamba-9B", {state(1, 128, 128, 64, checkpoints=1): 29, full(8, 128): 3}),
        ("tiiuae--Falcon-H1-7B-Instruct", {state(1, 24, 256, 128, checkpoints=1): 44, full(2, 128): 44}),
        ("ibm-granite--granite-4.0-h-small", {state(1, 128, 128, 64, checkpoints=1): 36, full(8, 128): 4}),
        ("state-spaces--mamba-2.8b-hf", {state(0, 5120, 16, 1): 64}),
        ("openai-community--gpt2", {full(12, 64): 12}),
        ("tiiuae--falcon-7b", {full(1, 64): 32}),
        ("zai-org--chatglm3-6b", {full(2, 128): 28}),
        ("facebook--opt-6.7b", {full(32, 128): 32}),
        ("bigscience--bloom-7b1", {full(32, 128): 30}),
        ("EleutherAI--gpt-neox-20b", {full(64, 96): 44}),
        ("mosaicml--mpt-7b", {full(32, 128): 32}),
        ("BAAI--bge-large-en-v1.5", {None: 24}),
    ],
)
def test_each_layer_keeps_what_the_model_says(name, kinds):
    assert Counter(model(name).layers) == kinds


def test_layers_stand_in_the_models_order():
    kinds = model("google--gemma-2-9b").layers
    assert isinstance(kinds[0], SlidingWindow)
    assert isinstance(kinds[1], FullAttention)
    assert model("Qwen--Qwen3-Next-80B-A3B-Instruct").layers[3] == full(2, 256)


def test_layers_that_borrow_keys_and_values_are_told_apart():
    assert Counter(model("google--gemma-4-E2B-it").borrowing) == {window(1, 256, 512): 16, full(1, 512): 4}


@pytest.mark.parametrize(
    ("changes", "length"),
    [
        pytest.param({}, 4096, id="the positions that were learned"),
        pytest.param({"seq_length": 2048}, 2048, id="the least of several"),
        pytest.param({"model_max_length": 8192}, 8192, id="a length that the model names as its longest"),
        pytest.param({"rope_scaling": {"type": "linear", "factor": 4.0}}, 16384, id="linear: stretched"),
        pytest.param({"rope_scaling": {"rope_type": "dynamic", "factor": 2}}, 8192, id="dynamic: stretched"),
        pytest.param({"rope_scaling": {"rope_type": "linear", "factor": None}}, 4096, id="no factor"),
        pytest.param(
            {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, 4096, id="YaRN: stretched already"
        ),
        pytest.param({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 4096, id="Llama 3: likewise"),
        pytest.param(
            {"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 1024},
            1024,
            id="LongRoPE: the length before it was stretched",
        ),
        pytest.param(
            {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0}}},
            8192,
            id="for each kind of layer",
        ),
        pytest.param({"max_position_embeddings": None}, None, id="nothing said"),
    ],
)
def test_the_longest_request_is_the_engines(changes, length):
    assert small(**changes).context_length == length


def test_gemma_3_says_its_stretched_length():
    assert model("google--gemma-3-27b-it").context_length == 131072


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, [full(2, 64)] * 4, id="all alike"),
        pytest.param({"num_key_value_heads": None}, [full(4, 64)] * 4, id="as many keys as queries"),
        pytest.param({"num_key_value_heads": 2.0}, [full(2, 64)] * 4, id="a whole number with a point"),
        pytest.param({"num_key_value_heads": [1, 2, 2, 1]}, [full(2, 64)] * 4, id="the most of a list"),
        pytest.param({"sliding_window": 128}, [window(2, 64, 128)] * 4, id="a window for all"),
        pytest.param({"sliding_window": 4096}, [full(2, 64)] * 4, id="a window as long as any request"),
        pytest.param({"sliding_window": 0}, [full(2, 64)] * 4, id="0 is no window"),
        pytest.param(
            {"sliding_window": 128, "max_window_layers": 2},
            [full(2, 64)] * 4,
            id="Qwen: a window that is switched off",
        ),
        pytest.param(
            {"sliding_window": 128, "max_window_layers": 2, "use_sliding_window": True},
            [full(2, 64)] * 2 + [window(2, 64, 128)] * 2,
            id="Qwen: a window from a layer on",
        ),
        pytest.param(
            {"sliding_window": 128, "sliding_window_pattern": "LLG"},
            [window(2, 64, 128)] * 2 + [full(2, 64), window(2, 64, 128)],
            id="letters that repeat",
        ),
        pytest.param(
            {"model_type": "gpt_oss", "sliding_window": 128},
            [window(2, 64, 128), full(2, 64)] * 2,
            id="gpt-oss: every other layer",
        ),
        pytest.param(
            {"layer_types": ["sliding_attention"], "sliding_window": 128},
            [window(2, 64, 128)] * 4,
            id="a list that is too short goes on as it ends",
        ),
        pytest.param(
            {"model_type": "llama4_text", "attention_chunk_size": 64, "no_rope_layers": [1, 0]},
            [ChunkedAttention(kv_heads=2, key_dim=64, value_dim=64, chunk=64), full(2, 64)] * 1
            + [ChunkedAttention(kv_heads=2, key_dim=64, value_dim=64, chunk=64), full(2, 64)],
            id="Llama 4: chunks but for layers without positions",
        ),
        pytest.param(
            {"attn_type_list": [0, 1, 0, 1]},
            [state(0, 4, 64, 64, kernel=1, width=4), full(2, 64)] * 2,
            id="MiniMax-Text-01",
        ),
        pytest.param(
            {"layer_types": ["conv", "full_attention"] * 2, "conv_L_cache": 3},
            [state(0, 256, 0, 1, kernel=3), full(2, 64)] * 2,
            id="LFM2: short convolutions",
        ),
        pytest.param(
            {
                "kv_lora_rank": 32,
                "qk_rope_head_dim": 16,
                "linear_attn_config": {"full_attn_layers": [2, 4], "num_heads": 4, "head_dim": 16},
            },
            [state(4, 4, 16, 16, width=4, checkpoints=1), latent(32, 16)] * 2,
            id="Kimi Linear",
        ),
        pytest.param(
            {"model_type": "minicpm3", "kv_lora_rank": 32, "qk_nope_head_dim": 40, "qk_rope_head_dim": 24},
            [full(4, 64)] * 4,
            id="MiniCPM3: vLLM keeps whole keys",
        ),
        pytest.param(
            {"attn_config": {"kv_n_heads": 1}, "num_key_value_heads": None}, [full(1, 64)] * 4, id="DBRX"
        ),
        pytest.param(
            {"model_type": "mamba2", "num_heads": 8, "head_dim": None, "state_size": 32, "conv_kernel": 4},
            [state(1, 8, 32, 64, checkpoints=1)] * 4,
            id="Mamba 2",
        ),
    ],
)
def test_what_layers_keep_by_the_ways_to_say_it(changes, expected):
    assert list(small(**changes).layers) == expected


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        pytest.param({"layer_types": ["psychic"] * 4}, "psychic", id="a kind of layer nobody knows"),
        pytest.param({"layer_types": ["mamba"] * 4}, "linear layers are missing", id="a state without sizes"),
        pytest.param({"compress_ratios": [1]}, "compressed", id="compressed attention"),
        pytest.param({"is_encoder_decoder": True}, "encoder's output", id="cross attention"),
        pytest.param({"intermediate_size": None}, "width of the MLP", id="no width of the MLP"),
        pytest.param({"num_experts": 8}, "how many experts", id="experts, but not how many a token passes"),
        pytest.param({"max_position_embeddings": None}, "2,048", id="no length"),
        pytest.param({"quantization_config": {"quant_method": "new"}}, "`new`", id="an unknown quantization"),
    ],
)
def test_what_is_not_known_is_bounded_and_said(changes, note):
    read = small(**changes)
    assert any(note in sentence for sentence in read.unknown)
    assert all(kind == full(2, 64) for kind in read.layers)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"model_type": "roberta"}, id="an encoder"),
        pytest.param(
            {"model_type": "gemma3_text", "use_bidirectional_attention": True}, id="made of a decoder"
        ),
    ],
)
def test_an_encoder_for_embeddings_keeps_nothing_and_says_so(changes):
    read = small(**changes)
    assert read.layers == (None,) * 4
    assert "max_num_seqs" in read.unknown[0]


def test_a_tuned_model_that_names_its_base_is_no_adapter():
    assert small(base_model_name_or_path="x/y").layers == (full(2, 64),) * 4


def test_an_unknown_architecture_counts_as_full_attention():
    assert small(architectures=["NewForCausalLM"], model_type="new_model").layers == (full(2, 64),) * 4


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        pytest.param([], "a list", id="no object"),
        pytest.param(None, "empty", id="nothing"),
        pytest.param("x", "a text", id="a text"),
        pytest.param(3, "a single value", id="a number"),
        pytest.param({}, "`num_hidden_layers` is missing", id="an empty object"),
        pytest.param({"_class_name": "FluxPipeline"}, "diffusion", id="a diffusion model"),
        pytest.param({"peft_type": "LORA", "base_model_name_or_path": "x/y"}, "adapter", id="an adapter"),
        pytest.param({"general.architecture": "llama"}, "GGUF", id="the header of a GGUF file"),
        pytest.param({"tokenizer_class": "LlamaTokenizer"}, "tokenizer", id="a tokenizer"),
        pytest.param({"weight_map": {}, "metadata": {}}, "index", id="an index of weights"),
        pytest.param({**SMALL, "hidden_size": None}, "`hidden_size` is missing", id="no width"),
        pytest.param({**SMALL, "vocab_size": None}, "`vocab_size` is missing", id="no vocabulary"),
        pytest.param({**SMALL, "num_attention_heads": None}, "`num_attention_heads`", id="no heads"),
        pytest.param(
            {**SMALL, "model_type": "mamba", "layer_types": ["attention"]},
            "one without any",
            id="attention in a model without",
        ),
        pytest.param({**SMALL, "hidden_size": "4096"}, "'4096', not a number", id="a text for a number"),
        pytest.param({**SMALL, "hidden_size": True}, "True, not a number", id="a bool for a number"),
        pytest.param({**SMALL, "hidden_size": 0}, "0, not between", id="zero"),
        pytest.param({**SMALL, "num_key_value_heads": -1}, "-1, not between", id="less than zero"),
        pytest.param({**SMALL, "hidden_size": 4096.5}, "not a whole number", id="half an element"),
        pytest.param({**SMALL, "hidden_size": float("inf")}, "not a whole number", id="infinity"),
        pytest.param({**SMALL, "num_hidden_layers": 10**6}, "not between 1 and 2000", id="a million layers"),
        pytest.param({**SMALL, "vocab_size": 10**5000}, "very large", id="a number too long to print"),
        pytest.param({**SMALL, "hidden_size": "x" * 99}, "...", id="a text too long to print"),
        pytest.param({**SMALL, "head_dim": [64]}, "`head_dim` is [64]", id="a list for a number"),
    ],
)
def test_what_is_no_usable_config_is_refused_with_a_sentence(given, sentence):
    refusal = read_model_config(given)
    assert isinstance(refusal, Refusal)
    assert sentence in refusal.message
    assert len(refusal.message) < 200


@given(st.dictionaries(KEYS, JSON, max_size=12))
@settings(max_examples=60, deadline=None)
def test_no_object_makes_reading_raise(changes):
    for given_config in (changes, {**SMALL, **changes}):
        assert isinstance(read_model_config(given_config), ModelConfig | Refusal)


@given(broken_configs())
@settings(max_examples=100, deadline=None)
def test_broken_fields_make_reading_of_a_real_config_not_raise(broken):
    assert isinstance(read_model_config(broken), ModelConfig | Refusal)
