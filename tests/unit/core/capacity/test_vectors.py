import pytest
from tests.unit.core.capacity import models as m
from tests.unit.core.capacity.real_models import NAMES, model
from tests.unit.core.capacity.vectors import Vector, vectors

from stoker.core.capacity.kv_cache import concurrency, kv_cache, kv_layout


@pytest.mark.parametrize("vector", [pytest.param(v, id=v.name) for v in vectors()])
def test_what_was_published_is_what_is_computed(vector: Vector):
    assert abs(vector.computed - vector.published) <= vector.within


def test_there_are_enough_of_them_to_mean_something():
    assert len(vectors()) >= 60


@pytest.mark.parametrize(
    ("name", "hand_made"),
    [
        ("meta-llama--Meta-Llama-3.1-8B", m.LLAMA_8B),
        ("meta-llama--Meta-Llama-3.1-70B", m.LLAMA_70B),
        ("Qwen--Qwen2.5-0.5B-Instruct", m.QWEN2_5_0_5B),
        ("Qwen--Qwen2.5-32B-Instruct", m.QWEN2_5_32B),
        ("Qwen--Qwen3-8B", m.QWEN3_8B),
        ("Qwen--Qwen3-14B", m.QWEN3_14B),
        ("Qwen--Qwen3-32B", m.QWEN3_32B),
        ("Qwen--Qwen3-30B-A3B", m.QWEN3_30B_A3B),
        ("microsoft--phi-4", m.PHI_4),
        ("MiniMaxAI--MiniMax-M2.7", m.MINIMAX_M2_7),
        ("deepseek-ai--DeepSeek-V3", m.DEEPSEEK_V3),
        ("deepseek-ai--DeepSeek-V3.2", m.DEEPSEEK_V3_2),
        ("mistralai--Mistral-Small-4-119B-2603", m.MISTRAL_SMALL_4),
        ("nvidia--Qwen3.6-35B-A3B-NVFP4", m.QWEN3_6_35B_A3B),
        ("Qwen--Qwen3.5-27B", m.QWEN3_5_27B),
        ("Qwen--Qwen3-Next-80B-A3B-Instruct", m.QWEN3_NEXT_80B),
        ("openai--gpt-oss-20b", m.GPT_OSS_20B),
        ("openai--gpt-oss-120b", m.GPT_OSS_120B),
        ("google--gemma-2-9b", m.GEMMA_2_9B),
        ("google--gemma-4-31B-it", m.GEMMA_4_31B),
        ("google--gemma-4-E2B-it", m.GEMMA_4_E2B),
    ],
)
def test_the_models_of_the_vectors_are_the_real_ones(name, hand_made):
    assert kv_layout(model(name), m.settings()) == kv_layout(hand_made, m.settings())


@pytest.mark.parametrize("name", NAMES)
def test_every_real_model_has_a_layout(name):
    layout = kv_layout(model(name), m.settings())
    cache = kv_cache(layout, 10**11)
    assert concurrency(layout, cache, 1024) >= concurrency(layout, cache, 100_000) > 0
