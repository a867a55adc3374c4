import pytest
from tests.unit.core.capacity import models as m

from stoker.core.capacity.architecture import ChunkedAttention
from stoker.core.capacity.pages import pages


def test_a_page_is_one_layer_of_one_block():
    [stage] = pages(m.LLAMA_8B, m.settings())
    assert [page.bytes for page in stage] == [16 * 8 * 2 * 128 * 2] * 32


@pytest.mark.parametrize(
    ("ranks", "heads"),
    [
        pytest.param(2, 4, id="heads are cut over ranks"),
        pytest.param(8, 1, id="one head each"),
        pytest.param(16, 1, id="heads are repeated when there are more ranks"),
    ],
)
def test_tensor_ranks_share_the_heads(ranks, heads):
    [stage] = pages(m.LLAMA_8B, m.settings(tensor_parallel=ranks))
    assert {page.bytes for page in stage} == {16 * heads * 2 * 128 * 2}


def test_a_latent_vector_is_whole_on_every_rank():
    [stage] = pages(m.DEEPSEEK_V3, m.settings(tensor_parallel=8))
    assert {page.bytes for page in stage} == {16 * 1152}


@pytest.mark.parametrize(
    ("layers", "ranks", "expected"),
    [
        pytest.param(32, 2, [16, 16], id="even"),
        pytest.param(61, 4, [15, 15, 16, 15], id="one over goes to the rank before the last"),
        pytest.param(62, 4, [15, 16, 16, 15], id="two over go to the middle"),
        pytest.param(3, 2, [2, 1], id="the last of two has less"),
    ],
)
def test_pipeline_ranks_take_layers_in_order(layers, ranks, expected):
    stages = pages(m.uniform(layers, 8, 128), m.settings(pipeline_parallel=ranks))
    assert [len(stage) for stage in stages] == expected


def test_a_layer_that_keeps_nothing_takes_its_place_but_no_page():
    model = m.model(m.full(8, 128), None, None, None)
    assert [len(stage) for stage in pages(model, m.settings(pipeline_parallel=2))] == [1, 0]


def test_a_drafter_is_on_the_last_rank():
    stages = pages(m.LLAMA_8B, m.settings(pipeline_parallel=2, speculative_layers=1))
    assert [len(stage) for stage in stages] == [16, 17]


@pytest.mark.parametrize(
    ("model", "kept"),
    [
        pytest.param(m.GPT_OSS_20B, m.full(8, 64), id="all tokens where the model has such a layer"),
        pytest.param(m.uniform(2, 8, 64), m.full(8, 64), id="as the model's own"),
        pytest.param(
            m.model(m.window(8, 64, 128)), m.window(8, 64, 128), id="a window if it has nothing else"
        ),
        pytest.param(m.model(m.gated(32), m.full(2, 256)), m.full(2, 256), id="attention, never a state"),
    ],
)
def test_a_drafter_keeps_what_the_model_keeps(model, kept):
    [stage] = pages(model, m.settings(speculative_layers=1))
    assert stage[-1].layer == kept


def test_a_model_without_attention_has_no_drafter():
    assert len(pages(m.model(m.gated(32)), m.settings(speculative_layers=1))[0]) == 1


def test_an_indexer_has_a_page_of_its_own_and_blocks_that_its_kernels_read():
    [stage] = pages(m.latent(1, 512, 64, indexer=128), m.settings(kv_cache_dtype="fp8"))
    assert [page.bytes for page in stage] == [64 * 656, 64 * 132]


@pytest.mark.parametrize(
    ("model", "changes", "expected"),
    [
        pytest.param(m.LLAMA_8B, {}, 16, id="as the user says, without states"),
        pytest.param(m.QWEN3_6_35B_A3B, {"kv_cache_dtype": "fp8"}, 2096, id="long enough for a state"),
        pytest.param(
            m.QWEN3_5_27B,
            {"kv_cache_dtype": "fp8", "tensor_parallel": 2},
            1568,
            id="and for its part on a rank",
        ),
        pytest.param(m.QWEN3_6_35B_A3B, {"block_size": 4096}, 4096, id="the user's own if that is longer"),
        pytest.param(m.model(m.gated(32)), {}, 16, id="states alone need no blocks"),
        pytest.param(
            m.model(*m.latent(1, 512, 64).layers, m.gated(32)), {}, 1920, id="beside latent vectors by 128"
        ),
    ],
)
def test_a_block_holds_a_state(model, changes, expected):
    [stage] = pages(model, m.settings(**changes))
    assert {page.block_size for page in stage} == {expected}


def test_windows_and_chunks_are_kept_whole_without_the_hybrid_manager():
    chunked = ChunkedAttention(kv_heads=8, key_dim=64, value_dim=64, chunk=8192)
    model = m.model(m.full(8, 64), m.window(8, 64, 128), chunked, m.gated(32))
    [stage] = pages(model, m.settings(hybrid_kv_cache=False))
    assert [page.layer for page in stage] == [m.full(8, 64)] * 3 + [m.gated(32)]


def test_a_model_of_windows_only_keeps_them_without_the_hybrid_manager():
    [stage] = pages(m.model(m.window(8, 64, 128)), m.settings(hybrid_kv_cache=False))
    assert stage[0].layer == m.window(8, 64, 128)


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        pytest.param("auto", 16 * 8 * 2 * 128, id="as its files ask"),
        pytest.param("bfloat16", 16 * 8 * 2 * 128 * 2, id="unless the user says otherwise"),
    ],
)
def test_a_model_may_ask_for_a_type(argument, expected):
    model = m.model(m.full(8, 128), kv_cache_dtype="fp8")
    [[page]] = pages(model, m.settings(kv_cache_dtype=argument))
    assert page.bytes == expected


def test_a_state_is_kept_in_the_type_that_the_user_says():
    states = [
        pages(m.model(m.gated(32)), m.settings(state_bytes_per_element=element))[0][0].bytes
        for element in (2, 4)
    ]
    assert states[1] - states[0] == 2 * 32 * 128 * 128
