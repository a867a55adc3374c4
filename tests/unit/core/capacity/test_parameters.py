"""Parameters are counted as published, in total and for one token."""

import pytest
from tests.unit.core.capacity.models import full
from tests.unit.core.capacity.models import model as model_of
from tests.unit.core.capacity.real_models import NAMES, model

from stoker.core.capacity.architecture import LinearState
from stoker.core.capacity.parameters import active_parameters, parameters

BILLION = 1e9


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("meta-llama--Meta-Llama-3.1-8B", 8.03),
        ("meta-llama--Meta-Llama-3.1-70B", 70.55),
        ("meta-llama--Meta-Llama-3.1-405B", 405.85),
        ("Qwen--Qwen2.5-0.5B-Instruct", 0.494),
        ("Qwen--Qwen2.5-1.5B-Instruct", 1.54),
        ("Qwen--Qwen2.5-7B-Instruct", 7.62),
        ("Qwen--Qwen2.5-32B-Instruct", 32.76),
        ("Qwen--Qwen2.5-72B-Instruct", 72.71),
        ("mistralai--Mistral-7B-Instruct-v0.3", 7.25),
        ("mistralai--Mistral-Small-24B-Instruct-2501", 23.57),
        ("mistralai--Mixtral-8x7B-v0.1", 46.70),
        ("mistralai--Mixtral-8x22B-v0.1", 140.6),
        ("microsoft--phi-4", 14.66),
        ("google--gemma-2-9b", 9.24),
        ("Qwen--Qwen3-0.6B", 0.596),
        ("Qwen--Qwen3-8B", 8.19),
        ("Qwen--Qwen3-14B", 14.77),
        ("Qwen--Qwen3-32B", 32.76),
        ("Qwen--Qwen3-30B-A3B", 30.53),
        ("Qwen--Qwen3-235B-A22B", 235.09),
        ("Qwen--Qwen3-Coder-480B-A35B-Instruct", 480.15),
        ("deepseek-ai--DeepSeek-V3", 671.0),
        ("moonshotai--Kimi-K2-Instruct", 1026.5),
        ("zai-org--GLM-5", 744.0),
        ("mistralai--Mistral-Small-4-119B-2603", 119.0),
        ("openai--gpt-oss-20b", 20.91),
        ("openai--gpt-oss-120b", 116.83),
        ("Qwen--Qwen3-Next-80B-A3B-Instruct", 79.67),
        ("MiniMaxAI--MiniMax-M2.7", 228.7),
        ("nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 31.58),
        ("nvidia--Llama-3_3-Nemotron-Super-49B-v1", 49.87),
        ("nvidia--Nemotron-H-56B-Base-8K", 56.4),
        ("XiaomiMiMo--MiMo-V2-Flash", 309.0),
        ("ai21labs--Jamba-v0.1", 51.57),
        ("ibm-ai-platform--Bamba-9B", 9.78),
        ("tiiuae--Falcon-H1-7B-Instruct", 7.59),
        ("ibm-granite--granite-4.0-h-small", 32.2),
        ("state-spaces--mamba-2.8b-hf", 2.768),
        ("openai-community--gpt2", 0.124),
        ("tiiuae--falcon-7b", 6.92),
        ("zai-org--chatglm3-6b", 6.24),
        ("facebook--opt-6.7b", 6.66),
        ("bigscience--bloom-7b1", 7.07),
        ("EleutherAI--gpt-neox-20b", 20.55),
        ("mosaicml--mpt-7b", 6.65),
        ("BAAI--bge-large-en-v1.5", 0.335),
    ],
)
def test_all_parameters_are_within_half_a_percent_of_the_published_number(name, billions):
    assert parameters(model(name)).total / BILLION == pytest.approx(billions, rel=0.005)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        pytest.param("Qwen--Qwen3-VL-8B-Instruct", 8.77, id="a vision model without its merger"),
        pytest.param("Qwen--Qwen3.5-27B", 27.78, id="without the drafter layer of the files"),
        pytest.param("Qwen--Qwen3.5-35B-A3B", 35.95, id="likewise, with experts"),
        pytest.param(
            "meta-llama--Llama-4-Scout-17B-16E-Instruct", 109.0, id="a vision part that is not described"
        ),
    ],
)
def test_parts_that_are_left_out_are_less_than_three_percent(name, billions):
    counted = parameters(model(name)).total / BILLION
    assert counted < billions
    assert counted == pytest.approx(billions, rel=0.03)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("Qwen--Qwen3-30B-A3B", 3.35 - 0.31),
        ("Qwen--Qwen3-235B-A22B", 22.2 - 0.62),
        ("openai--gpt-oss-20b", 3.61),
        ("openai--gpt-oss-120b", 5.13),
        ("mistralai--Mixtral-8x7B-v0.1", 12.88 - 0.13),
        ("deepseek-ai--DeepSeek-V3", 37.55 - 0.93),
        ("Qwen--Qwen2.5-0.5B-Instruct", 0.494),
        ("meta-llama--Meta-Llama-3.1-8B", 8.03 - 0.525),
    ],
)
def test_a_token_passes_what_is_published_as_active_less_the_embedding_it_looks_up(name, billions):
    assert active_parameters(model(name)) / BILLION == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_no_token_passes_more_than_there_is(name):
    assert 0 < active_parameters(model(name)) <= parameters(model(name)).total


def test_layers_that_borrow_keys_still_have_weights():
    borrowing = model_of(full(8, 128), None, borrowing=(full(8, 128),), dense_layers=2)
    alone = model_of(full(8, 128), None, dense_layers=2)
    assert parameters(borrowing).attention == 2 * parameters(alone).attention


def test_lightning_attention_and_short_convolutions_are_counted():
    lightning = LinearState(key_heads=0, value_heads=32, key_dim=128, value_dim=128, conv_kernel=1)
    short = LinearState(key_heads=0, value_heads=4096, key_dim=0, value_dim=1, conv_kernel=3)
    assert parameters(model_of(lightning)).linear == 5 * 4096 * 4096
    assert parameters(model_of(short)).linear == 4 * 4096 * 4096 + 3 * 4096
