"""Experts and MLPs are found in every way that configs write them."""

import pytest
from tests.unit.core.capacity.real_models import model

from stoker.core.capacity.architecture import Experts
from stoker.core.capacity.experts import read_mlps
from stoker.core.capacity.fields import Fields

SMALL = {"num_hidden_layers": 6, "hidden_size": 256, "intermediate_size": 512}
MOE = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64}


def mlps(**changes):
    return read_mlps(Fields({**SMALL, **changes}))


def expert_layers(**changes):
    return mlps(**MOE, **changes).experts.layers


@pytest.mark.parametrize(
    ("changes", "layers"),
    [
        pytest.param({}, 6, id="all layers"),
        pytest.param({"first_k_dense_replace": 2}, 4, id="from a layer on (DeepSeek)"),
        pytest.param({"first_k_dense_replace": 1, "moe_layer_freq": 2}, 3, id="from a layer on, every other"),
        pytest.param({"moe_layer_freq": [0, 1, 1, 0, 0, 0]}, 2, id="a flag for each layer (MiMo)"),
        pytest.param({"moe_layers": [1, 3]}, 2, id="a list of layers (Llama 4)"),
        pytest.param({"interleave_moe_layer_step": 2}, 3, id="every other layer (Llama 4)"),
        pytest.param({"decoder_sparse_step": 1, "mlp_only_layers": [0, 5]}, 4, id="all but a list (Qwen)"),
        pytest.param(
            {"expert_layer_period": 2, "expert_layer_offset": 1}, 3, id="a period and an offset (Jamba)"
        ),
        pytest.param({"mlp_layer_types": ["dense", "sparse", "sparse"]}, 2, id="a word for each layer (GLM)"),
        pytest.param({"moe_layer_start_index": 3}, 3, id="a first layer (ERNIE)"),
    ],
)
def test_layers_with_experts_are_counted(changes, layers):
    assert expert_layers(**changes) == layers
    assert mlps(**MOE, **changes).dense_layers == 6 - layers


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("deepseek-ai--DeepSeek-V3", (256, 8, 2048, 2048, 58)),
        ("moonshotai--Kimi-K2-Instruct", (384, 8, 2048, 2048, 60)),
        ("mistralai--Mixtral-8x7B-v0.1", (8, 2, 14336, 0, 32)),
        ("Qwen--Qwen3-30B-A3B", (128, 8, 768, 0, 48)),
        ("Qwen--Qwen3-Next-80B-A3B-Instruct", (512, 10, 512, 512, 48)),
        ("openai--gpt-oss-120b", (128, 4, 2880, 0, 36)),
        ("meta-llama--Llama-4-Maverick-17B-128E-Instruct", (128, 1, 8192, 8192, 24)),
        ("google--gemma-4-26B-A4B", (128, 8, 704, 0, 30)),
        ("nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", (128, 6, 1856, 3712, 23)),
        ("ai21labs--Jamba-v0.1", (16, 2, 14336, 0, 16)),
    ],
)
def test_experts_of_real_models(name, expected):
    count, per_token, width, shared, layers = expected
    assert model(name).experts == Experts(
        count=count,
        per_token=per_token,
        intermediate_size=width,
        shared_intermediate_size=shared,
        layers=layers,
    )


def test_a_single_expert_is_an_mlp():
    assert mlps(num_experts=1).experts is None


def test_no_token_passes_more_experts_than_there_are():
    assert mlps(**{**MOE, "num_experts_per_tok": 99}).experts.per_token == 8


def test_dbrx_describes_its_experts_in_a_part_of_their_own():
    inner = {"moe_num_experts": 16, "moe_top_k": 4, "ffn_hidden_size": 128}
    experts = mlps(ffn_config=inner).experts
    assert (experts.count, experts.per_token, experts.intermediate_size) == (16, 4, 128)


def test_gemma_4_has_an_mlp_beside_the_experts():
    assert mlps(**MOE, enable_moe_block=True).dense_layers == 6


@pytest.mark.parametrize(
    ("changes", "width"),
    [
        pytest.param({}, 512, id="one width"),
        pytest.param({"intermediate_size": [100, 300]}, 200, id="the mean of a width for each layer"),
        pytest.param({"intermediate_size": None, "model_type": "gpt2"}, 1024, id="four times the model's"),
        pytest.param(
            {"use_double_wide_mlp": True, "num_kv_shared_layers": 3}, 768, id="half of them twice as wide"
        ),
        pytest.param({**MOE, "intermediate_size": None, "first_k_dense_replace": 1}, 1024, id="not said"),
    ],
)
def test_the_width_of_an_mlp(changes, width):
    assert mlps(**changes).intermediate_size == width


def test_experts_without_a_width_are_as_wide_as_an_mlp():
    assert mlps(num_experts=8, num_experts_per_tok=2, intermediate_size=None, ffn_dim=96).experts == Experts(
        count=8, per_token=2, intermediate_size=96, shared_intermediate_size=0, layers=6
    )


@pytest.mark.parametrize(
    ("blocks", "layers", "width"),
    [
        pytest.param(
            [{"ffn": {"ffn_mult": 5.25}}, {"ffn": {"no_op": True}}], 1, 1024, id="a factor, and none"
        ),
        pytest.param(
            [{"ffn": {"intermediate_size": 300}}, {"ffn": {"intermediate_size": 100}}], 2, 200, id="widths"
        ),
        pytest.param([{"ffn": {"replace_with_linear": True}}], 1, 86, id="one matrix instead of three"),
        pytest.param([{"ffn": {"no_op": True}}], 0, 0, id="none at all"),
    ],
)
def test_layers_that_a_search_chose(blocks, layers, width):
    found = mlps(block_configs=blocks)
    assert (found.dense_layers, found.intermediate_size) == (layers, width)
