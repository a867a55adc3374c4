import pytest
from e2e.stand_in_engine.scheduler import Limits, Request, Scheduler
from e2e.stand_in_engine.timing import StepTiming
from hypothesis import given
from hypothesis import strategies as st

TIMING = StepTiming(base_s=0.01, per_sequence_s=0.001, per_kv_token_s=1e-6, prefill_tokens_per_s=10_000)


def scheduler(*, max_num_seqs=4, max_num_batched_tokens=64, blocks=101):
    limits = Limits(max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens, blocks=blocks)
    return Scheduler(limits=limits, timing=TIMING)


def request(*, prompt_tokens=16, output_tokens=4, arrived_s=0.0):
    return Request(prompt_tokens=prompt_tokens, output_tokens=output_tokens, arrived_s=arrived_s)


def run(engine, *, now_s=0.0, check=lambda: None):
    """Virtual time: each step ends when it said it would. Returns the time of the end."""
    while (step := engine.start_step(now_s=now_s)) is not None:
        check()
        now_s += step.duration_s
        engine.finish_step(step, now_s=now_s)
    return now_s


def test_a_request_waits_for_its_prompt_and_then_makes_one_token_a_step():
    engine, asked = scheduler(), request(prompt_tokens=50, output_tokens=3)
    engine.add(asked)
    ended_s = run(engine)
    first_s = 0.01 + 50 / 10_000
    assert asked.first_token_s == pytest.approx(first_s)
    assert ended_s == pytest.approx(first_s + 2 * (0.01 + 0.001) + (50 + 51) * 1e-6)
    assert asked.made == 3


def test_a_long_prompt_is_computed_in_chunks():
    engine = scheduler(max_num_batched_tokens=64)
    engine.add(request(prompt_tokens=150, output_tokens=1))
    chunks = []
    while (step := engine.start_step(now_s=0.0)) is not None:
        chunks.append(step.tokens)
        engine.finish_step(step, now_s=0.0)
    assert chunks == [64, 64, 22]


def test_those_that_decode_come_before_the_chunk_of_a_prompt():
    engine = scheduler(max_num_batched_tokens=64)
    short, long = request(output_tokens=10), request(prompt_tokens=150)
    engine.add(short)
    engine.finish_step(engine.start_step(now_s=0.0), now_s=0.0)
    engine.add(long)
    step = engine.start_step(now_s=0.0)
    assert step.work == ((short, 1), (long, 63))


def test_no_place_in_the_batch_means_waiting_in_order():
    engine = scheduler(max_num_seqs=1)
    first, second = request(), request()
    engine.add(first)
    engine.add(second)
    engine.start_step(now_s=0.0)
    assert (engine.running, list(engine.waiting)) == ([first], [second])


def test_no_block_means_waiting_even_when_a_later_one_would_fit():
    engine = scheduler(blocks=5)
    running, large, small = request(prompt_tokens=40), request(prompt_tokens=30), request(prompt_tokens=1)
    for each in (running, large, small):
        engine.add(each)
    engine.start_step(now_s=0.0)
    assert (engine.running, list(engine.waiting)) == ([running], [large, small])


def test_the_last_one_gives_way_when_blocks_run_out_and_finishes_later():
    engine = scheduler(blocks=5)
    first, second = request(prompt_tokens=31, output_tokens=20), request(prompt_tokens=31, output_tokens=20)
    engine.add(first)
    engine.add(second)
    run(engine)
    assert (first.preemptions, second.preemptions) == (0, 1)
    assert first.finished
    assert second.finished
    assert first.last_token_s < second.last_token_s


def test_a_request_that_can_never_fit_is_refused_with_the_numbers():
    engine = scheduler(blocks=3)
    with pytest.raises(ValueError, match="40 tokens needs 3 blocks of KV cache, and there are 2"):
        engine.add(request(prompt_tokens=36, output_tokens=4))


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_an_aborted_request_leaves_nothing_behind(steps):
    engine, kept, gone = scheduler(max_num_seqs=2), request(output_tokens=8), request(output_tokens=8)
    engine.add(kept)
    engine.add(gone)
    for _ in range(steps):
        engine.finish_step(engine.start_step(now_s=0.0), now_s=0.0)
    made = gone.made
    engine.abort(gone)
    run(engine)
    assert gone.made == made
    assert kept.finished
    assert engine.idle
    assert engine.kv_usage == 0


def test_a_request_aborted_during_a_step_makes_no_token_in_it():
    engine, gone = scheduler(), request()
    engine.add(gone)
    step = engine.start_step(now_s=0.0)
    engine.abort(gone)
    assert engine.finish_step(step, now_s=0.01) == []
    assert engine.idle


@st.composite
def workloads(draw):
    usable_blocks = draw(st.integers(2, 40))
    most_tokens = usable_blocks * 16
    sizes = draw(
        st.lists(
            st.tuples(st.integers(1, most_tokens - 1), st.integers(1, 40), st.booleans()),
            min_size=1,
            max_size=25,
        )
    )
    requests = [
        (request(prompt_tokens=p, output_tokens=min(o, most_tokens - p)), abort) for p, o, abort in sizes
    ]
    limits = (draw(st.integers(1, 6)), draw(st.integers(1, 200)), usable_blocks + 1)
    return limits, requests


@given(workloads())
def test_limits_hold_and_every_request_finishes_in_order_of_arrival(workload):
    (max_num_seqs, max_num_batched_tokens, blocks), requests = workload
    engine = scheduler(
        max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens, blocks=blocks
    )
    kept = [asked for asked, abort in requests if not abort]
    for asked, _ in requests:
        engine.add(asked)
    now_s = 0.0
    steps = 0
    while (step := engine.start_step(now_s=now_s)) is not None:
        held = sum(asked.blocks for asked in engine.running)
        assert 0 < len(engine.running) <= max_num_seqs
        assert 0 < step.tokens <= max_num_batched_tokens
        assert engine.free_blocks >= 0
        assert held + engine.free_blocks == blocks - 1
        assert all(asked.blocks * 16 >= asked.computed for asked in engine.running)
        assert step.duration_s > 0
        now_s += step.duration_s
        engine.finish_step(step, now_s=now_s)
        steps += 1
        if steps == 3:
            for asked, abort in requests:
                if abort and not asked.finished:
                    engine.abort(asked)
    assert engine.idle
    assert engine.free_blocks == blocks - 1
    assert all(asked.made == asked.output_tokens for asked in kept)
    starts = [asked.scheduled_s for asked in kept]
    assert starts == sorted(starts)
