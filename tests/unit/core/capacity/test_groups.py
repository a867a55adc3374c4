import pytest
from tests.unit.core.capacity import models as m

from stoker.core.capacity.architecture import ChunkedAttention, FullAttention
from stoker.core.capacity.groups import kv_groups
from stoker.core.capacity.pages import pages

CHUNKED = ChunkedAttention(kv_heads=8, key_dim=128, value_dim=128, chunk=8192)


def groups_of(model, **changes):
    return kv_groups(pages(model, m.settings(**changes)))


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        pytest.param(m.LLAMA_8B, [32], id="layers alike are one group"),
        pytest.param(m.model(m.full(8, 128), m.full(4, 128)), [2], id="full layers of two sizes are one"),
        pytest.param(m.model(*[m.window(8, 128, 512)] * 3), [3], id="windows of one length are one"),
        pytest.param(m.model(*[CHUNKED] * 3), [3], id="chunks of one length are one"),
        pytest.param(m.model(*[m.gated(32)] * 3), [3], id="states alone are one"),
        pytest.param(
            m.latent(61, 512, 64, indexer=128), [122], id="latent vectors and their indexer are one"
        ),
        pytest.param(m.GPT_OSS_20B, [12, 12], id="half windows are two"),
        pytest.param(
            m.model(*[CHUNKED, CHUNKED, CHUNKED, m.full(8, 128)] * 2), [2] * 4, id="Llama 4's pattern"
        ),
        pytest.param(m.GEMMA_4_E2B, [3] * 5, id="a kind is cut by the smallest"),
        pytest.param(m.QWEN3_5_27B, [16] * 4, id="states are cut too"),
        pytest.param(
            m.model(*[m.window(8, 64, 128)] * 12, *[m.full(8, 64)] * 13),
            [12, 13],
            id="12 and 13 are not three",
        ),
        pytest.param(
            m.model(*[m.window(8, 64, 128)] * 7, *[m.full(8, 64)] * 3), [3, 2, 2, 3], id="the last are padded"
        ),
    ],
)
def test_layers_that_share_a_block_table(model, sizes):
    groups, _ = groups_of(model)
    assert [group.layers for group in groups] == sizes


def test_a_drafter_that_fits_no_group_pads_the_others():
    groups, block_bytes = groups_of(m.GPT_OSS_20B, speculative_layers=1)
    assert [group.layers for group in groups] == [12, 13]
    assert block_bytes == 13 * 16 * 8 * 64 * 2 * 2


def test_smaller_pages_get_longer_blocks():
    groups, block_bytes = groups_of(m.GEMMA_4_31B)
    assert {group.block_size for group in groups if isinstance(group.layer, FullAttention)} == {32}
    assert block_bytes == 10 * 16 * 16 * 256 * 2 * 2


def test_pages_that_do_not_come_out_even_are_padded():
    groups, block_bytes = groups_of(m.model(m.full(3, 128), m.window(4, 128, 512)))
    assert [group.block_size for group in groups] == [16, 16]
    assert block_bytes == 16 * 4 * 128 * 2 * 2


def test_states_are_padded_to_the_page_of_attention():
    _, block_bytes = groups_of(m.QWEN3_6_35B_A3B, kv_cache_dtype="fp8")
    assert block_bytes == 10 * 2096 * 1024 == 21_463_040


def test_the_rank_with_most_layers_sets_the_block():
    _, block_bytes = groups_of(m.uniform(61, 8, 128), pipeline_parallel=4)
    assert block_bytes == 16 * 16 * 8 * 2 * 128 * 2


def test_each_rank_has_a_part_of_every_group():
    """Two stages of three full and nine window layers hold half of each group, so half of each block."""
    pattern = [*[m.window(8, 128, 512)] * 3, m.full(8, 128)] * 6
    _, whole = groups_of(m.model(*pattern))
    _, half = groups_of(m.model(*pattern), pipeline_parallel=2)
    assert half == whole // 2


def test_a_model_that_keeps_nothing_has_no_groups():
    assert groups_of(m.model(None, None)) == ((), 0)
