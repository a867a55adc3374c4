"""Every common method is read into one form, and each component gets the bits that it is stored in."""

import dataclasses
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.capacity.real_models import model

from stoker.core.capacity.architecture import ModuleFormat, Quantization
from stoker.core.capacity.fields import Fields
from stoker.core.capacity.formats import Component, bits_per_weight, output_head_bits
from stoker.core.capacity.quantization import read_quantization, with_argument

NOTHING = Fields({})
INT4_GROUP = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 32}}


def read(**given_config):
    found, _ = read_quantization(Fields({"quantization_config": given_config}), NOTHING)
    return found


@pytest.mark.parametrize(
    ("given_config", "expected"),
    [
        pytest.param({"quant_method": "fp8"}, ("fp8", 8, 0), id="FP8, one scale for a tensor"),
        pytest.param(
            {"quant_method": "fp8", "weight_block_size": [128, 128]}, ("fp8", 8, 16384), id="FP8 in blocks"
        ),
        pytest.param({"quant_method": "fbgemm_fp8"}, ("fbgemm_fp8", 8, 0), id="FBGEMM"),
        pytest.param({"quant_method": "awq", "bits": 4, "group_size": 128}, ("awq", 4, 128), id="AWQ"),
        pytest.param(
            {"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, ("awq", 4, 64), id="AWQ, old names"
        ),
        pytest.param(
            {"quant_method": "gptq", "bits": 8, "group_size": -1}, ("gptq", 8, 0), id="GPTQ by channel"
        ),
        pytest.param({"quant_method": "mxfp4"}, ("mxfp4", 4, 32), id="MXFP4"),
        pytest.param(
            {"quant_method": "bitsandbytes", "load_in_4bit": True},
            ("bitsandbytes", 4, 64),
            id="bitsandbytes, 4",
        ),
        pytest.param(
            {"quant_method": "bitsandbytes", "load_in_8bit": True},
            ("bitsandbytes", 8, 0),
            id="bitsandbytes, 8",
        ),
        pytest.param(
            {"quant_method": "modelopt", "quant_algo": "FP8"}, ("modelopt", 8, 0), id="ModelOpt FP8"
        ),
        pytest.param(
            {"quant_method": "modelopt", "quant_algo": "NVFP4"}, ("modelopt_fp4", 4, 16), id="ModelOpt NVFP4"
        ),
        pytest.param(
            {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}},
            ("modelopt_fp4", 4, 16),
            id="ModelOpt, as in its own file",
        ),
        pytest.param(
            {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4"}}},
            ("quark", 4, 32),
            id="Quark, 4",
        ),
        pytest.param(
            {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}},
            ("quark", 8, 0),
            id="Quark, 8",
        ),
        pytest.param(
            {"quant_method": "compressed_tensors", "config_groups": {"group_0": INT4_GROUP}},
            ("compressed-tensors", 4, 32),
            id="compressed-tensors",
        ),
        pytest.param(
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"targets": ["Linear"], "weights": {"block_structure": [128, 128]}}},
            },
            ("compressed-tensors", 16, 16384),
            id="a group that does not say its bits",
        ),
    ],
)
def test_methods_are_read(given_config, expected):
    found = read(**given_config)
    assert (found.method, found.bits, found.group_size) == expected


@pytest.mark.parametrize(
    ("given_config", "name"),
    [
        ({"quant_method": "new"}, "new"),
        ({}, "without a name"),
        ({"quant_method": "modelopt", "quant_algo": "W1"}, "modelopt"),
        ({"quant_method": "quark", "global_quant_config": {}}, "quark"),
    ],
)
def test_a_method_that_is_not_known_counts_as_sixteen_bits_and_is_named(given_config, name):
    found, unknown = read_quantization(Fields({"quantization_config": given_config or {"x": 1}}), NOTHING)
    assert found is None
    assert name in unknown[0]


def test_the_language_part_may_hold_it_and_an_older_name_too():
    part = Fields({"compression_config": {"quant_method": "fp8"}})
    assert read_quantization(NOTHING, part)[0] == Quantization(method="fp8", bits=8, group_size=0)


@pytest.mark.parametrize("name", ["modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules"])
def test_what_is_left_alone_is_kept_as_written(name):
    assert read(quant_method="fp8", **{name: ["lm_head"]}).kept_modules == ("lm_head",)


def test_groups_without_a_rest_leave_all_other_modules_alone():
    groups = {
        "a": {"targets": ["layers.0.mlp"], "weights": {"num_bits": 8}},
        "b": {"targets": ["layers.1.mlp"], "weights": {"num_bits": 4, "group_size": 16}},
    }
    found = read(quant_method="modelopt", config_groups=groups)
    assert (found.method, found.bits) == ("modelopt_fp4", 4)
    assert found.kept_modules == ("*",)
    assert [form.bits for form in found.exceptions] == [8, 4]


def test_an_argument_quantizes_only_what_is_not_quantized():
    awq = Quantization(method="awq", bits=4, group_size=128)
    assert with_argument(awq, "fp8") is awq
    assert with_argument(None, None) is None
    assert with_argument(None, "fp8").on_the_fly


def bits(name, component, layers=None):
    read_model = model(name)
    return bits_per_weight(read_model.quantization, component, layers=layers or range(len(read_model.layers)))


@pytest.mark.parametrize(
    ("name", "component", "expected"),
    [
        pytest.param("Qwen--Qwen2.5-7B-Instruct-AWQ", Component.DENSE_MLP, 4 + 20 / 128, id="AWQ"),
        pytest.param("openai--gpt-oss-20b", Component.ROUTED_EXPERTS, 4.25, id="gpt-oss: experts"),
        pytest.param("openai--gpt-oss-20b", Component.ATTENTION, 16, id="gpt-oss: attention"),
        pytest.param("moonshotai--Kimi-K2.5", Component.ROUTED_EXPERTS, 4.5, id="Kimi: experts"),
        pytest.param("moonshotai--Kimi-K2.5", Component.SHARED_EXPERTS, 16, id="Kimi: shared experts"),
        pytest.param("moonshotai--Kimi-K2.5", Component.DENSE_MLP, 16, id="Kimi: a choice in an expression"),
        pytest.param("nvidia--Gemma-4-31B-IT-NVFP4", Component.ATTENTION, 16, id="Gemma: layer by layer"),
        pytest.param("nvidia--Gemma-4-31B-IT-NVFP4", Component.DENSE_MLP, 4.5, id="Gemma: MLP"),
        pytest.param("nvidia--Qwen3.6-35B-A3B-NVFP4", Component.ROUTED_EXPERTS, 4.5, id="mixed: experts"),
        pytest.param("Qwen--Qwen3-30B-A3B-FP8", Component.ROUTED_EXPERTS, 8 + 32 / 16384, id="FP8 in blocks"),
        pytest.param("unsloth--phi-4-bnb-4bit", Component.DENSE_MLP, 4.125, id="bitsandbytes"),
        pytest.param("meta-llama--Meta-Llama-3.1-8B", Component.DENSE_MLP, 16, id="not quantized"),
    ],
)
def test_each_component_has_the_bits_it_is_stored_in(name, component, expected):
    assert bits(name, component) == pytest.approx(expected)


def test_a_mixed_model_is_read_layer_by_layer():
    name = "nvidia--Qwen3.6-35B-A3B-NVFP4"
    assert bits(name, Component.ATTENTION, layers=[3, 7]) == 8
    assert bits(name, Component.LINEAR, layers=[0, 1]) == 8
    assert bits(name, Component.DENSE_MLP, layers=[0]) == 16
    assert output_head_bits(model(name).quantization) == 4.5
    assert output_head_bits(model("openai--gpt-oss-20b").quantization) == 16
    assert output_head_bits(None) == 16


def kept(*names):
    return Quantization(method="fp8", bits=8, group_size=0, kept_modules=names)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(("model.layers.0.self_attn.q_proj",), 12, id="one of two layers"),
        pytest.param(("model.layers.*.self_attn",), 16, id="a name with a star"),
        pytest.param(("self_attn",), 16, id="a part of a name"),
        pytest.param(("attn",), 8, id="half a word is no part"),
        pytest.param(("q_proj*",), 16, id="a star at the end"),
        pytest.param((r"re:.*layers\.\d+\.self_attn\.(q|k)_proj$",), 16, id="an expression"),
        pytest.param((r"re:^model\.layers\.[0-9]+\.self_attn.*",), 16, id="digits in brackets"),
        pytest.param((r"re:(a+)+$",), 8, id="an expression that is not understood"),
        pytest.param(("mtp.layers.0*",), 8, id="layers of a drafter"),
        pytest.param(("model.visual",), 8, id="another part of the model"),
        pytest.param((), 8, id="nothing"),
    ],
)
def test_names_are_compared_as_quantizers_write_them(names, expected):
    assert bits_per_weight(kept(*names), Component.ATTENTION, layers=range(2)) == expected


def test_sixteen_bit_groups_are_not_quantized():
    found = Quantization(method="compressed-tensors", bits=16, group_size=0)
    assert bits_per_weight(found, Component.ATTENTION, layers=range(2)) == 16
    listed = ModuleFormat(modules=("lm_head",), bits=8, group_size=128)
    assert output_head_bits(dataclasses.replace(found, exceptions=(listed,))) == 8 + 16 / 128


def test_an_expression_made_to_take_for_ever_takes_no_time():
    started = time.perf_counter()
    hostile = "re:" + "(a|b)" * 40 + ".*" * 40
    assert bits_per_weight(kept(hostile), Component.ATTENTION, layers=range(100)) == 8
    assert time.perf_counter() - started < 2


@given(st.lists(st.text(alphabet="re:.*()|[]\\d+layers.0", max_size=30), max_size=4))
@settings(max_examples=50, deadline=None)
def test_no_name_makes_the_comparison_raise(names):
    assert 8 <= bits_per_weight(kept(*names), Component.DENSE_MLP, layers=range(3)) <= 16
