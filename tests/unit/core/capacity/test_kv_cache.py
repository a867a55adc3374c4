import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.capacity import models as m

from stoker.core.capacity.architecture import ChunkedAttention, LatentAttention, LinearState
from stoker.core.capacity.kv_cache import concurrency, kv_cache, kv_layout, max_context_length, whole_requests

GIB = 1024**3
MAMBA_2 = LinearState(key_heads=8, value_heads=128, key_dim=128, value_dim=64, conv_kernel=4, checkpoints=1)


@pytest.mark.parametrize(
    ("model", "changes", "length", "expected"),
    [
        pytest.param(m.LLAMA_8B, {}, 1, 1, id="one token takes a block"),
        pytest.param(m.LLAMA_8B, {}, 17, 2, id="a token more takes another"),
        pytest.param(m.LLAMA_8B, {"decode_context_parallel": 4}, 8192, 128, id="tokens dealt out to ranks"),
        pytest.param(m.GPT_OSS_20B, {"max_num_batched_tokens": 8192}, 16_000, 1000 + 521, id="a window"),
        pytest.param(
            m.GPT_OSS_20B, {"max_num_batched_tokens": 8192}, 64, 4 + 5, id="shorter than its window"
        ),
        pytest.param(
            m.GPT_OSS_20B,
            {"max_num_batched_tokens": 8192, "concurrent_batches": 2},
            131_072,
            8192 + 1033,
            id="steps that overlap hold a window each",
        ),
        pytest.param(
            m.model(ChunkedAttention(kv_heads=8, key_dim=128, value_dim=128, chunk=8192)),
            {},
            131_072,
            (8192 + 2048) // 16,
            id="a chunk",
        ),
        pytest.param(
            m.QWEN3_6_35B_A3B, {"kv_cache_dtype": "fp8"}, 131_072, 63 + 6, id="states, two blocks each"
        ),
        pytest.param(
            m.QWEN3_6_35B_A3B,
            {"kv_cache_dtype": "fp8", "prefix_caching": False},
            131_072,
            63 + 3,
            id="states without prefix caching, one block each",
        ),
        pytest.param(m.model(MAMBA_2, m.full(8, 128)), {}, 1, 1 + 3, id="Mamba 2 has a checkpoint more"),
        pytest.param(
            m.model(MAMBA_2, m.full(8, 128)),
            {"prefix_caching": False},
            1,
            1 + 1,
            id="which is for prefix caching",
        ),
        pytest.param(m.model(m.gated(32)), {}, 131_072, 1, id="states alone have no prefix caching"),
        pytest.param(
            m.model(m.gated(32)), {"speculative_tokens": 3}, 9, 4, id="a state for each token of a draft"
        ),
    ],
)
def test_blocks_of_a_request(model, changes, length, expected):
    assert kv_layout(model, m.settings(**changes)).blocks_per_request(length) == expected


def test_a_cache_holds_whole_blocks():
    layout = kv_layout(m.LLAMA_8B, m.settings())
    cache = kv_cache(layout, 10 * layout.block_bytes + 1)
    assert (cache.blocks, cache.block_size, cache.block_bytes) == (10, 16, 2 * 1024**2)
    assert cache.bytes_per_token == 131_072


def test_no_memory_is_no_blocks():
    assert kv_cache(kv_layout(m.LLAMA_8B, m.settings()), -1).blocks == 0


def test_the_null_block_is_printed_but_not_given_out():
    layout = kv_layout(m.LLAMA_8B, m.settings())
    cache = kv_cache(layout, 2 * layout.bytes_per_request(4096))
    assert concurrency(layout, cache, 4096) == 2.0
    assert whole_requests(layout, cache, 4096) == 1


def test_windows_do_not_grow():
    layout = kv_layout(m.model(m.window(8, 64, 128)), m.settings())
    assert layout.bytes_per_token == 0
    assert layout.block_size == 16


def test_a_model_that_keeps_nothing_holds_any_number():
    layout = kv_layout(m.model(None), m.settings())
    cache = kv_cache(layout, GIB)
    assert cache.blocks == 0
    assert concurrency(layout, cache, 4096) == whole_requests(layout, cache, 4096) == math.inf
    assert max_context_length(layout, cache, at_most=4096) == 4096


def test_the_longest_request_is_no_longer_than_the_model_allows():
    layout = kv_layout(m.LLAMA_8B, m.settings())
    assert max_context_length(layout, kv_cache(layout, 100 * GIB), at_most=131_072) == 131_072


def test_nothing_fits_in_the_null_block():
    layout = kv_layout(m.LLAMA_8B, m.settings())
    assert max_context_length(layout, kv_cache(layout, layout.block_bytes), at_most=131_072) == 0


def chunked(heads, chunk):
    return ChunkedAttention(kv_heads=heads, key_dim=64, value_dim=64, chunk=chunk)


def models_of(layers):
    patterns = st.lists(layers, min_size=1, max_size=4)
    return patterns.flatmap(lambda pattern: st.integers(1, 6).map(lambda times: m.model(*pattern * times)))


HEADS = st.sampled_from([1, 2, 4, 8])
SIZES = st.sampled_from([64, 128, 256])
BY_HEADS = st.one_of(
    st.builds(m.full, HEADS, SIZES),
    st.builds(m.window, HEADS, SIZES, st.integers(1, 8192)),
    st.builds(chunked, HEADS, st.integers(1, 8192)),
    st.builds(m.gated, st.sampled_from([16, 32])),
    st.none(),
)
MODELS = models_of(BY_HEADS | st.just(LatentAttention(rank=512, rope_dim=64)))
ARGUMENTS = st.builds(
    m.settings,
    max_num_batched_tokens=st.sampled_from([256, 2048, 8192]),
    kv_cache_dtype=st.sampled_from(["auto", "fp8"]),
    tensor_parallel=st.sampled_from([1, 2, 8]),
    pipeline_parallel=st.sampled_from([1, 2, 3]),
    speculative_layers=st.integers(0, 1),
)
LENGTHS = st.integers(1, 200_000)
MEMORY = st.integers(0, 200 * GIB)


@settings(max_examples=60, deadline=None)
@given(model=MODELS, arguments=ARGUMENTS, length=LENGTHS, less=MEMORY, more=MEMORY)
def test_more_memory_never_holds_fewer(model, arguments, length, less, more):
    layout = kv_layout(model, arguments)
    less, more = sorted((less, more))
    held = [concurrency(layout, kv_cache(layout, memory), length) for memory in (less, more)]
    assert held == sorted(held)


@settings(max_examples=60, deadline=None)
@given(model=MODELS, arguments=ARGUMENTS, short=LENGTHS, long=LENGTHS, memory=MEMORY)
def test_a_longer_context_never_holds_more(model, arguments, short, long, memory):
    layout = kv_layout(model, arguments)
    cache = kv_cache(layout, memory)
    short, long = sorted((short, long))
    assert concurrency(layout, cache, long) <= concurrency(layout, cache, short)


@settings(max_examples=60, deadline=None)
@given(layers=st.integers(1, 60), heads=HEADS, size=SIZES, arguments=ARGUMENTS, length=LENGTHS, memory=MEMORY)
def test_fp8_never_holds_fewer(layers, heads, size, arguments, length, memory):
    model = m.uniform(layers, heads, size)
    held = []
    for dtype in ("auto", "fp8", "nvfp4"):
        layout = kv_layout(model, replace(arguments, kv_cache_dtype=dtype))
        held.append(concurrency(layout, kv_cache(layout, memory), length))
    assert held == sorted(held)


@settings(max_examples=60, deadline=None)
@given(model=models_of(BY_HEADS), arguments=ARGUMENTS, length=LENGTHS)
def test_more_ranks_never_put_more_on_each(model, arguments, length):
    fewer, more = (
        kv_layout(model, replace(arguments, tensor_parallel=ranks)).bytes_per_request(length)
        for ranks in (2, 4)
    )
    assert more <= fewer


@settings(max_examples=60, deadline=None)
@given(model=MODELS, arguments=ARGUMENTS, memory=MEMORY)
def test_the_longest_request_fits_and_one_longer_does_not(model, arguments, memory):
    layout = kv_layout(model, arguments)
    cache = kv_cache(layout, memory)
    longest = max_context_length(layout, cache, at_most=1_000_000)
    assert longest == 0 or whole_requests(layout, cache, longest) >= 1
    assert longest == 1_000_000 or whole_requests(layout, cache, longest + 1) < 1
