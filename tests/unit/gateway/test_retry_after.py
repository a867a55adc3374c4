import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.gateway.retry_after import DrainRate, QueueState, retry_after_s, until_instance_s


@pytest.mark.parametrize(
    ("queued", "finished_per_s", "next_instance_s", "expected_s"),
    [
        pytest.param(40, 8.0, None, 5.0, id="the queue drains at the rate seen lately"),
        pytest.param(40, 8.0, 2.0, 2.0, id="a starting instance shortens the wait"),
        pytest.param(40, 8.0, 90.0, 5.0, id="a slow start does not lengthen it"),
        pytest.param(40, 0.0, None, 120.0, id="nothing drains: the most we ever ask for"),
        pytest.param(0, 8.0, None, 1.0, id="never less than a second"),
    ],
)
def test_waits_for_what_is_ahead(queued, finished_per_s, next_instance_s, expected_s):
    queue = QueueState(queued=queued, finished_per_s=finished_per_s, next_instance_s=next_instance_s)
    assert retry_after_s(queue, spread=0) == pytest.approx(expected_s)


def test_nothing_waits_longer_than_the_queue_lets_it():
    queue = QueueState(queued=40, finished_per_s=0.0, next_instance_s=None, max_wait_s=30)
    assert retry_after_s(queue, spread=0.5) == 37.5


@given(
    queued=st.integers(0, 10_000),
    more=st.integers(1, 1_000),
    rate=st.floats(0, 1_000),
    spread=st.floats(0, 1, exclude_max=True),
)
def test_a_longer_queue_never_asks_for_a_shorter_wait(queued, more, rate, spread):
    short = QueueState(queued=queued, finished_per_s=rate, next_instance_s=None)
    long = QueueState(queued=queued + more, finished_per_s=rate, next_instance_s=None)
    assert retry_after_s(short, spread=spread) <= retry_after_s(long, spread=spread) <= 180


@pytest.mark.parametrize(
    ("next_instance_s", "spread", "expected_s"),
    [
        pytest.param(200.0, 0.5, 250.0, id="a known start is told, however long"),
        pytest.param(0.0, 0.0, 1.0, id="one that is overdue may come any second"),
        pytest.param(None, 0.0, 120.0, id="nothing starts: the longest guess"),
    ],
)
def test_without_an_instance_the_wait_is_the_start_of_the_next(next_instance_s, spread, expected_s):
    assert until_instance_s(next_instance_s, spread=spread) == pytest.approx(expected_s)


@given(count=st.integers(2, 200), gap_s=st.floats(0.05, 5))
def test_the_drain_rate_of_a_steady_flow_is_near_that_flow_from_the_beginning(count, gap_s):
    rate = DrainRate()
    for i in range(count + 1):
        rate.finished(i * gap_s)
    # Departures are lumps: half a gap of doubt at either end.
    assert rate.per_s(count * gap_s) == pytest.approx(1 / gap_s, rel=0.1 + gap_s / 30)


def test_the_worked_example():
    rate = DrainRate()
    for second in range(11):
        rate.finished(float(second))
    assert rate.per_s(10.0) == pytest.approx(1.02, abs=0.005)


def test_the_rate_is_not_known_before_two_have_left_and_fades_when_nothing_leaves():
    rate = DrainRate()
    assert rate.per_s(5.0) == 0
    rate.finished(5.0)
    assert rate.per_s(5.0) == 0
    rate.finished(6.0)
    rates = [rate.per_s(now_s) for now_s in (6.0, 36.0, 66.0)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.1
