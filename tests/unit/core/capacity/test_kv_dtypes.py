import pytest
from tests.unit.core.capacity.models import full, gated, model

from stoker.core.capacity.architecture import LatentAttention, LinearState
from stoker.core.capacity.fields import Fields
from stoker.core.capacity.kv_dtypes import (
    KV_CACHE_DTYPES,
    attention_bytes,
    indexer_bytes,
    latent_bytes,
    latent_takes,
    state_bytes,
    stored_dtype,
)
from stoker.core.capacity.quantization import read_kv_cache_dtype


def test_the_user_has_the_last_word_on_the_type():
    asks = model(full(8, 128), kv_cache_dtype="fp8")
    assert [stored_dtype(asked, model=asks) for asked in ("auto", "bfloat16")] == ["fp8", "bfloat16"]


LATENT = LatentAttention(rank=512, rope_dim=64)
SPARSE = LatentAttention(rank=512, rope_dim=64, indexer_dim=128)


@pytest.mark.parametrize(
    ("kv_cache_dtype", "expected"),
    [
        pytest.param("auto", 4096, id="the model's own type, bfloat16"),
        pytest.param("bfloat16", 4096, id="bfloat16"),
        pytest.param("fp8", 2048, id="fp8 is one byte"),
        pytest.param("fp8_e5m2", 2048, id="every fp8 is one byte"),
        pytest.param("nvfp4", 8 * 2 * 72, id="NVFP4 is half a byte and a scale for each 16"),
        pytest.param("int8_per_token_head", 2048 + 8 * 2 * 4, id="a scale for each token and head"),
        pytest.param("int4_per_token_head", 1024 + 8 * 2 * 4, id="four bits and a scale"),
        pytest.param("turboquant_k8v4", 2048, id="TurboQuant is bounded by one byte"),
    ],
)
def test_bytes_of_a_token_in_a_layer_of_8_heads_of_128(kv_cache_dtype, expected):
    assert attention_bytes(full(8, 128), heads=8, kv_cache_dtype=kv_cache_dtype, own=2) == expected


@pytest.mark.parametrize(
    ("layer", "kv_cache_dtype", "expected"),
    [
        pytest.param(LATENT, "auto", 1152, id="one vector in bfloat16"),
        pytest.param(LATENT, "fp8", 576, id="one vector in fp8"),
        pytest.param(LATENT, "fp8_ds_mla", 656, id="fp8 with its scales"),
        pytest.param(LATENT, "nvfp4_ds_mla", 352, id="NVFP4 with its scales"),
        pytest.param(SPARSE, "fp8", 656, id="with an indexer fp8 is stored with its scales"),
        pytest.param(SPARSE, "auto", 1152, id="with an indexer in bfloat16"),
        pytest.param(LATENT, "nvfp4", 1152, id="what vLLM refuses counts as the model's own type"),
    ],
)
def test_bytes_of_a_token_in_a_latent_layer(layer, kv_cache_dtype, expected):
    assert latent_bytes(layer, kv_cache_dtype=kv_cache_dtype, own=2) == expected


def test_latent_vectors_are_not_stored_in_plain_nvfp4():
    assert {dtype for dtype in KV_CACHE_DTYPES if not latent_takes(dtype)} == {"nvfp4", "nvfp4_4over6"}


def test_an_indexer_keeps_fp8_and_a_scale():
    assert indexer_bytes(SPARSE) == 132


MAMBA_2 = LinearState(key_heads=8, value_heads=128, key_dim=128, value_dim=64, conv_kernel=4)


@pytest.mark.parametrize(
    ("layer", "ranks", "draft", "expected"),
    [
        pytest.param(gated(32), 1, 0, 2_146_304, id="gated linear attention with a float32 state"),
        pytest.param(gated(48), 2, 0, 1_603_584, id="heads are cut over ranks"),
        pytest.param(gated(32), 1, 2, 2_146_304 + 8192 * 2 * 2, id="a draft needs more inputs"),
        pytest.param(MAMBA_2, 1, 0, 128 * 64 * 128 * 2 + (8192 + 2048) * 3 * 2, id="Mamba 2, its own type"),
        pytest.param(
            MAMBA_2, 16, 0, 8 * 64 * 128 * 2 + (8192 + 2 * 16 * 128) // 16 * 3 * 2, id="groups are repeated"
        ),
    ],
)
def test_bytes_of_a_state(layer, ranks, draft, expected):
    assert state_bytes(layer, tensor_parallel=ranks, speculative_tokens=draft, own=2) == expected


@pytest.mark.parametrize(
    ("quantization_config", "expected"),
    [
        pytest.param(None, "auto", id="not quantized"),
        pytest.param({"quant_method": "fp8"}, "auto", id="weights only"),
        pytest.param({"quantization": {"kv_cache_quant_algo": "FP8"}}, "fp8", id="ModelOpt's own file"),
        pytest.param(
            {"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4"}, "nvfp4", id="ModelOpt, in four bits"
        ),
        pytest.param({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8", id="a scheme"),
        pytest.param({"kv_cache_scheme": {"num_bits": 16}}, "auto", id="a scheme of another kind"),
        pytest.param({"kv_cache_scheme": None}, "auto", id="an empty scheme"),
        pytest.param({"kv_cache_quant_algo": "int3"}, "auto", id="an unknown one"),
    ],
)
def test_a_checkpoint_may_ask_for_a_type(quantization_config, expected):
    config = Fields({"quantization_config": quantization_config})
    assert read_kv_cache_dtype(config, Fields({})) == expected
