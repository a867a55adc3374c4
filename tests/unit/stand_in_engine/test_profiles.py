"""The timing, run through the scheduler in virtual time, against readings that people published."""

from statistics import median

import pytest
from e2e.stand_in_engine.profiles import PROFILES
from e2e.stand_in_engine.scheduler import Limits, Request, Scheduler

ROUNDS = 3


def closed_loop(profile, *, concurrency, prompt_tokens, output_tokens, kv_dtype_bytes=2):
    """`concurrency` clients, each asking again when its answer is complete.

    The first round starts all of them at once, which no reading does; it is not counted.
    """
    limits = Limits(
        max_num_seqs=profile.max_num_seqs,
        max_num_batched_tokens=profile.max_num_batched_tokens,
        blocks=profile.memory.blocks(
            utilization=0.9, max_num_seqs=profile.max_num_seqs, kv_dtype_bytes=kv_dtype_bytes
        ),
    )
    engine = Scheduler(limits=limits, timing=profile.timing)

    def ask(now_s):
        engine.add(Request(prompt_tokens=prompt_tokens, output_tokens=output_tokens, arrived_s=now_s))

    for _ in range(concurrency):
        ask(0.0)
    now_s, made, done = 0.0, 0, []
    started_s, made_before = 0.0, 0
    while len(done) < (ROUNDS + 1) * concurrency:
        step = engine.start_step(now_s=now_s)
        now_s += step.duration_s
        for each in engine.finish_step(step, now_s=now_s):
            made += 1
            if each.finished:
                done.append(each)
                ask(now_s)
                if len(done) == concurrency:
                    started_s, made_before = now_s, made
    return {
        "tokens_per_s": (made - made_before) / (now_s - started_s),
        "first_token_s": median(each.first_token_s - each.arrived_s for each in done[concurrency:]),
    }


@pytest.mark.parametrize(
    ("name", "kv_dtype_bytes", "concurrency", "prompt_tokens", "output_tokens", "tokens_per_s"),
    [
        pytest.param("qwen3-8b-h100", 2, 1, 128, 1024, 145.7, id="reading 1"),
        pytest.param("qwen3-8b-h100", 2, 1, 8192, 512, 128.8, id="reading 2"),
        pytest.param("qwen3-8b-h100", 2, 16, 2048, 2048, 1625, id="reading 15"),
        pytest.param("qwen3-8b-h100", 2, 64, 2048, 2048, 3463, id="reading 16"),
        pytest.param("qwen3-8b-h100", 2, 256, 128, 1024, 13_567, id="reading 28"),
        pytest.param("llama-3.3-70b-fp8-2xh100", 1, 1, 5000, 500, 51.7, id="reading 9"),
        pytest.param("llama-3.3-70b-fp8-2xh100", 1, 25, 5000, 500, 623, id="reading 19"),
        pytest.param("llama-3.3-70b-fp8-2xh100", 1, 50, 5000, 500, 814, id="reading 33"),
    ],
)
def test_output_is_within_a_tenth_of_the_reading(
    name, kv_dtype_bytes, concurrency, prompt_tokens, output_tokens, tokens_per_s
):
    run = closed_loop(
        PROFILES[name],
        concurrency=concurrency,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        kv_dtype_bytes=kv_dtype_bytes,
    )
    assert run["tokens_per_s"] == pytest.approx(tokens_per_s, rel=0.1)


@pytest.mark.parametrize(
    ("name", "prompt_tokens", "expected_s"),
    [
        pytest.param("qwen3-8b-h100", 8192, 0.254, id="reading 2"),
        pytest.param("llama-3.3-70b-fp8-2xh100", 5000, 0.407, id="reading 9"),
    ],
)
def test_time_to_first_token_is_within_a_tenth_of_the_reading(name, prompt_tokens, expected_s):
    run = closed_loop(PROFILES[name], concurrency=1, prompt_tokens=prompt_tokens, output_tokens=100)
    assert run["first_token_s"] == pytest.approx(expected_s, rel=0.1)


@pytest.mark.parametrize(
    ("name", "utilization", "tokens"),
    [
        pytest.param("fast", 0.92, 65_536, id="64 Ki for tests"),
        pytest.param("qwen3-8b-h100", 0.9, 366_000, id="what an H100 has left beside an 8B model"),
    ],
)
def test_the_kv_cache_is_what_the_memory_leaves(name, utilization, tokens):
    profile = PROFILES[name]
    blocks = profile.memory.blocks(
        utilization=utilization, max_num_seqs=profile.max_num_seqs, kv_dtype_bytes=2
    )
    assert blocks * 16 == pytest.approx(tokens, rel=0.01 if tokens > 100_000 else 0)
