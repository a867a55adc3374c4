import pytest
from e2e.stand_in_engine.timing import Memory, StepTiming
from hypothesis import given
from hypothesis import strategies as st

TIMING = StepTiming(base_s=0.007, per_sequence_s=14e-6, per_kv_token_s=47e-9, prefill_tokens_per_s=32_600)
MEMORY = Memory(
    visible_gib=79.18,
    weights_gib=14.99,
    non_torch_gib=0.13,
    activation_bytes_per_sequence=4_937_856,
    kv_bytes_per_token=131_072,
)


@pytest.mark.parametrize(
    ("prefill_tokens", "decode_sequences", "kv_tokens", "expected_ms"),
    [
        pytest.param(0, 64, 64 * 3072, 17.1, id="the example of the docstring"),
        pytest.param(0, 1, 0, 7.0, id="one sequence costs the base"),
        pytest.param(3260, 0, 0, 107.0, id="a prompt costs its tokens"),
    ],
)
def test_the_terms_of_a_step_add_up(prefill_tokens, decode_sequences, kv_tokens, expected_ms):
    step_s = TIMING.step_s(
        prefill_tokens=prefill_tokens, decode_sequences=decode_sequences, kv_tokens=kv_tokens
    )
    assert step_s * 1000 == pytest.approx(expected_ms, abs=0.06)


@given(
    prefill=st.integers(0, 8192),
    sequences=st.integers(0, 1024),
    kv=st.integers(0, 1_000_000),
    more=st.integers(1, 1000),
)
def test_more_work_never_takes_less_time(prefill, sequences, kv, more):
    def step_s(p, s, k):
        return TIMING.step_s(prefill_tokens=p, decode_sequences=s, kv_tokens=k)

    least = step_s(prefill, sequences, kv)
    assert step_s(prefill + more, sequences, kv) > least
    assert step_s(prefill, sequences + more, kv) > least
    assert step_s(prefill, sequences, kv + more) > least


def test_kv_memory_is_what_was_published_for_llama_8b_on_h100():
    available = MEMORY.kv_available_bytes(utilization=0.90, max_num_seqs=1024)
    assert available / 2**30 == pytest.approx(51.38, abs=0.1)


def test_an_8_bit_kv_cache_has_twice_the_blocks():
    blocks = [MEMORY.blocks(utilization=0.90, max_num_seqs=1024, kv_dtype_bytes=size) for size in (2, 1)]
    assert blocks[1] == pytest.approx(2 * blocks[0], abs=1)


def test_a_model_that_does_not_fit_has_no_blocks():
    assert MEMORY.blocks(utilization=0.1, max_num_seqs=1024, kv_dtype_bytes=2) == 0
