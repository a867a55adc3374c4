import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.capacity.load import Load, RequestShape, at_rate, each, staffing
from stoker.core.capacity.queueing import Objective
from stoker.core.capacity.throughput import Range

TWO_SECONDS = Objective(within_s=2.0, percent=99.0)
SHAPE = RequestShape(prompt_tokens=1000, output_tokens=200)


def load(requests_per_s=10.0, objective=TWO_SECONDS):
    return Load(requests_per_s=requests_per_s, shape=SHAPE, objective=objective)


def certain(value):
    return Range(low=value, likely=value, high=value)


def test_the_worked_example():
    needed = staffing(load(), slots=64, output_tokens_per_s=certain(640.0))
    assert needed.service_time_s == certain(20.0)
    assert needed.offered == certain(200.0)
    assert needed.least_stable == certain(4)
    assert needed.replicas == certain(4)
    assert needed.utilization == pytest.approx(200 / 256)


def test_a_range_of_speeds_is_a_range_of_replicas_the_other_way_round():
    needed = staffing(load(), slots=64, output_tokens_per_s=Range(low=320.0, likely=640.0, high=1280.0))
    assert needed.service_time_s == Range(low=10.0, likely=20.0, high=40.0)
    assert needed.replicas == Range(low=2, likely=4, high=7)
    assert needed.least_stable == Range(low=2, likely=4, high=7)


def test_hardly_any_load_needs_one_replica_that_is_hardly_used():
    needed = staffing(load(requests_per_s=0.01), slots=64, output_tokens_per_s=certain(640.0))
    assert needed.replicas == certain(1)
    assert needed.utilization == pytest.approx(0.01 * 20 / 64)


def test_replicas_are_whole_numbers():
    needed = staffing(load(), slots=3, output_tokens_per_s=Range(low=33.3, likely=44.4, high=55.5))
    assert all(
        isinstance(n, int) for n in (needed.replicas.low, needed.replicas.likely, needed.replicas.high)
    )


def test_a_slot_is_counted_by_the_whole_request():
    assert SHAPE.tokens == 1200
    assert load().output_tokens_per_s == 2000


def test_an_amount_takes_least_at_the_highest_rate():
    assert at_rate(100, Range(low=10, likely=20, high=50)) == Range(low=2, likely=5, high=10)


def test_a_change_that_keeps_the_order_keeps_the_range():
    assert each(Range(low=1, likely=2, high=3), lambda value: value + 1) == Range(low=2, likely=3, high=4)


@settings(max_examples=40)
@given(
    requests_per_s=st.floats(0.01, 100),
    slots=st.integers(1, 512),
    speed=st.floats(10, 5000),
    spread=st.floats(1, 3),
)
def test_likely_replicas_are_stable_and_lie_in_their_range(requests_per_s, slots, speed, spread):
    speeds = Range(low=speed / spread, likely=speed, high=speed * spread)
    needed = staffing(load(requests_per_s=requests_per_s), slots=slots, output_tokens_per_s=speeds)
    assert needed.replicas.low <= needed.replicas.likely <= needed.replicas.high
    assert needed.least_stable.likely <= needed.replicas.likely
    assert 0 < needed.utilization < 1
