"""Memory is spent as vLLM spends it: the published breakdowns close, and what is estimated lies near them."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.unit.core.capacity.models import model as model_of
from tests.unit.core.capacity.models import settings, uniform
from tests.unit.core.capacity.real_models import broken_configs, model

from stoker.core.capacity.architecture import ModelConfig
from stoker.core.capacity.memory import GIB, activation_bytes, budget, memory_budget
from stoker.core.capacity.model_config import read_model_config
from stoker.core.capacity.parameters import active_parameters, parameters
from stoker.core.capacity.quantization import with_argument
from stoker.core.capacity.weights import weights_size

H100 = round(79.18 * GIB)


def gib(number):
    return round(number * GIB)


@pytest.mark.parametrize(
    ("visible", "utilization", "weights", "activation", "non_torch", "kv", "tolerance"),
    [
        pytest.param(79.22, 0.90, 14.96, 1.26, 1.79, 53.29, 0.02, id="Llama-3-8B, A100-80, vllm PR#10511"),
        pytest.param(8.00, 0.70, 5.20, 1.42, 0.03, -1.05, 0.02, id="Qwen2.5-7B-AWQ, RTX 4060, vllm#13882"),
        pytest.param(79.18, 0.90, 13.47, 7.38, 0.13, 50.28, 0.02, id="gpt-oss-20b, H100, llm-d-planner"),
        pytest.param(
            79.18, 0.95, 64.38, 7.38, 0.13, 3.33, 0.02, id="gpt-oss-120b, H100: at 0.95, not the stated 0.90"
        ),
        pytest.param(79.18, 0.90, 67.72, 4.84, 0.13, -1.44, 0.02, id="Llama-3.3-70B-FP8, H100"),
        pytest.param(79.18, 0.90, 14.99, 4.76, 0.13, 51.38, 0.02, id="Llama-3.1-8B, H100"),
        pytest.param(79.18, 0.90, 1.12, 5.56, 0.13, 64.45, 0.02, id="Qwen3-0.6B, H100"),
        pytest.param(79.18, 0.90, 61.03, 5.64, 0.14, 4.45, 0.02, id="Qwen3-32B, H100"),
        pytest.param(79.18, 0.95, 44.76, 2.12, 0.14, 28.20, 0.02, id="Mistral-Small-3.2-24B, H100"),
        pytest.param(139.81, 0.90, 74.28, 5.58, 1.38, 44.59, 0.02, id="Qwen3-Next-80B-A3B, two H200"),
        pytest.param(
            95.01, 0.90, 56.89, 0.76, 0.0, 27.85, 0.02, id="Qwen3-235B-FP8, four RTX PRO 6000, with non-torch"
        ),
        pytest.param(
            79.15, 0.70, 8.63, 1.16, 0.09, 45.21, 0.32, id="Phi-4 bnb-4bit: 0.31 GiB off, not explained"
        ),
    ],
)
def test_published_breakdowns_close(visible, utilization, weights, activation, non_torch, kv, tolerance):
    computed = budget(
        visible_bytes=gib(visible),
        weights=gib(weights),
        non_torch=gib(non_torch),
        activation=gib(activation),
        cuda_graphs=0,
        settings=settings(gpu_memory_utilization=utilization),
    )
    assert computed.kv / GIB == pytest.approx(kv, abs=tolerance)


@pytest.mark.parametrize(
    ("name", "changes", "published", "tolerance"),
    [
        pytest.param("meta-llama--Meta-Llama-3.1-8B", {"max_num_seqs": 1024}, 4.76, 0.06, id="Llama-3.1-8B"),
        pytest.param(
            "meta-llama--Meta-Llama-3.1-70B",
            {"max_num_seqs": 1024, "tensor_parallel": 2},
            4.84,
            0.14,
            id="Llama-3.3-70B on two: not divided",
        ),
        pytest.param("Qwen--Qwen3-0.6B", {"max_num_seqs": 1024}, 5.56, 0.03, id="Qwen3-0.6B"),
        pytest.param("openai--gpt-oss-20b", {"max_num_seqs": 1024}, 7.38, 0.01, id="gpt-oss-20b"),
        pytest.param("openai--gpt-oss-120b", {"max_num_seqs": 1024}, 7.38, 0.01, id="gpt-oss-120b"),
        pytest.param(
            "Qwen--Qwen3-Next-80B-A3B-Instruct",
            {"max_num_seqs": 1024, "tensor_parallel": 2},
            5.58,
            0.01,
            id="Qwen3-Next on two",
        ),
        pytest.param("Qwen--Qwen3-8B", {}, 1.40, 0.01, id="Qwen3-8B, 256 sequences"),
        pytest.param("Qwen--Qwen2.5-7B-Instruct-AWQ", {}, 1.42, 0.03, id="Qwen2.5-7B"),
        pytest.param("meta-llama--Meta-Llama-3.1-8B", {}, 1.26, 0.09, id="Llama-3-8B on an A100"),
        pytest.param(
            "meta-llama--Meta-Llama-3.1-8B",
            {},
            1.44,
            0.27,
            id="the same with v0.31: a fifth more, not explained",
        ),
        pytest.param("microsoft--phi-4", {}, 1.16, 0.25, id="Phi-4: a fifth more, not explained"),
        pytest.param(
            "mistralai--Mistral-Small-3.2-24B-Instruct-2506",
            {"max_num_seqs": 1024},
            2.12,
            2.70,
            id="Mistral-Small-3.2: a vision model that takes less than half",
        ),
        pytest.param(
            "Qwen--Qwen3-235B-A22B-FP8",
            {"max_num_seqs": 32, "max_num_batched_tokens": 8192, "tensor_parallel": 4},
            0.76,
            0.13,
            id="Qwen3-235B with 32 sequences: the prefill",
        ),
    ],
)
def test_activation_lies_near_what_was_published(name, changes, published, tolerance):
    given_settings = settings(
        **{"max_num_batched_tokens": 8192 if changes.get("max_num_seqs") else 2048} | changes
    )
    computed = activation_bytes(model(name), given_settings) / GIB
    assert computed == pytest.approx(published, abs=tolerance)


def test_tensor_parallelism_divides_the_prefill_and_not_the_sampler():
    wide = dataclasses.replace(uniform(1, 8, 128), vocab_size=1, intermediate_size=1_000_000)
    assert activation_bytes(wide, settings()) == 2 * activation_bytes(wide, settings(tensor_parallel=2))
    many = dataclasses.replace(wide, vocab_size=10**6, intermediate_size=1)
    assert activation_bytes(many, settings()) == activation_bytes(many, settings(tensor_parallel=2))


def a_budget(name="meta-llama--Meta-Llama-3.1-8B", visible=H100, on_cpu=False, **changes):
    read = model(name)
    changes = {"gpu_memory_utilization": 0.9, "cuda_graphs": False} | changes
    return memory_budget(
        read,
        weights_size(read, stored=None),
        visible_bytes=visible,
        settings=settings(**changes),
        on_cpu=on_cpu,
    )


def test_the_worked_example_is_what_was_read_within_a_tenth_of_a_gib():
    computed = a_budget(max_num_seqs=1024, max_num_batched_tokens=8192)
    assert computed.kv / GIB == pytest.approx(51.43, abs=0.04)
    assert computed.kv / GIB == pytest.approx(51.38, abs=0.1)


@pytest.mark.parametrize("changes", [{}, {"kv_cache_memory_bytes": GIB}], ids=["by utilization", "by size"])
def test_the_parts_add_up_to_what_is_visible(changes):
    computed = a_budget(cuda_graphs=True, **changes)
    parts = dataclasses.asdict(computed)
    visible = parts.pop("visible")
    assert sum(parts.values()) == visible


@pytest.mark.parametrize(
    ("visible", "changes", "expected"),
    [
        pytest.param(79.18, {}, 0.13, id="one rank"),
        pytest.param(79.18, {"tensor_parallel": 2}, 0.6, id="two H100s"),
        pytest.param(139.8, {"tensor_parallel": 2}, 1.4, id="two H200s"),
        pytest.param(79.18, {"pipeline_parallel": 2}, 0.6, id="two stages talk as well"),
        pytest.param(64, {"on_cpu": True}, 1.0, id="a process on CPU"),
    ],
)
def test_non_torch_is_what_was_read(visible, changes, expected):
    assert a_budget(visible=gib(visible), **changes).non_torch / GIB == pytest.approx(expected, abs=0.001)


def test_graphs_are_bounded_by_layers_and_by_a_gib():
    assert a_budget(cuda_graphs=True).cuda_graphs / GIB == pytest.approx(0.3125)
    assert a_budget("meta-llama--Meta-Llama-3.1-405B", cuda_graphs=True).cuda_graphs == GIB
    assert a_budget(cuda_graphs=False).cuda_graphs == 0
    assert a_budget(cuda_graphs=True, pipeline_parallel=2).cuda_graphs / GIB == pytest.approx(0.15625)


def test_a_cpu_has_no_graphs_and_keeps_to_the_share_of_its_node():
    computed = a_budget(on_cpu=True, cuda_graphs=True, visible=gib(64), gpu_memory_utilization=0.5)
    assert computed.cuda_graphs == 0
    assert computed.reserve == gib(32)
    assert computed.kv == gib(32) - computed.weights - computed.activation - computed.non_torch


def test_a_cache_of_a_given_size_is_not_bound_by_the_utilization():
    assert a_budget(kv_cache_memory_bytes=60 * GIB, gpu_memory_utilization=0.1).kv == 60 * GIB


def test_a_cache_that_is_larger_than_what_is_free_does_not_fit():
    computed = a_budget(kv_cache_memory_bytes=100 * GIB)
    assert computed.kv < 0
    assert computed.reserve == 0


def test_what_is_missing_is_below_zero():
    assert a_budget("meta-llama--Meta-Llama-3.1-70B").kv / GIB < -60


SIZES = st.integers(1, 200).map(lambda number: number * GIB)


@given(SIZES, SIZES)
def test_more_memory_never_leaves_less_for_keys_and_values(first, second):
    less, more = sorted((first, second))
    light = model_of(*uniform(4, 8, 128).layers, dense_layers=4)
    weights = weights_size(light, stored=None)
    kept = [
        memory_budget(light, weights, visible_bytes=size, settings=settings(tensor_parallel=1)).kv
        for size in (less, more)
    ]
    assert kept[0] <= kept[1]


@given(broken_configs(), st.sampled_from([None, "fp8"]), st.sampled_from([1, 2, 8]), st.sampled_from([1, 3]))
@hypothesis_settings(max_examples=100, deadline=None)
def test_whatever_is_read_gets_a_budget(given_config, quantization, tensor, pipeline):
    read = read_model_config(given_config)
    if isinstance(read, ModelConfig):
        weights = weights_size(
            dataclasses.replace(read, quantization=with_argument(read.quantization, quantization)),
            stored=None,
        )
        assert 0 < active_parameters(read) <= parameters(read).total
        spread = settings(tensor_parallel=tensor, pipeline_parallel=pipeline)
        assert memory_budget(read, weights, visible_bytes=H100, settings=spread).kv < H100
