import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.capacity.queueing import (
    Objective,
    late_share,
    least_stable_replicas,
    read_objective,
    replicas_for,
    wait_probability,
)
from stoker.core.model import Refusal


@pytest.mark.parametrize(
    ("text", "within_s", "percent"),
    [
        pytest.param("2s@99", 2, 99, id="seconds"),
        pytest.param("500ms@99.9", 0.5, 99.9, id="milliseconds and a broken share"),
        pytest.param("1.5m@90%", 90, 90, id="minutes, and a percent sign"),
        pytest.param(" 60m@50 ", 3600, 50, id="the longest, with spaces around it"),
    ],
)
def test_an_objective_is_a_time_and_a_share(text, within_s, percent):
    assert read_objective(text) == Objective(within_s=within_s, percent=percent)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("fast", "is not TIME@PERCENT", id="no numbers"),
        pytest.param("", "is not TIME@PERCENT", id="nothing"),
        pytest.param("2@99", "is not TIME@PERCENT", id="a time without a unit"),
        pytest.param("-2s@99", "is not TIME@PERCENT", id="a negative time"),
        pytest.param("0s@99", "between 0 and an hour", id="no time at all"),
        pytest.param("61m@99", "between 0 and an hour", id="longer than an hour"),
        pytest.param("2s@100", "cannot be promised", id="all requests"),
        pytest.param("2s@0", "between 0 and 100", id="no request"),
    ],
)
def test_a_bad_objective_is_refused_with_its_text(text, problem):
    refusal = read_objective(text)
    assert isinstance(refusal, Refusal)
    assert problem in refusal.message
    assert repr(text) in refusal.message


@pytest.mark.parametrize(
    ("servers", "offered", "expected"),
    [
        pytest.param(2, 1.0, 1 / 3, id="the worked example"),
        pytest.param(1, 0.7, 0.7, id="one server: its utilization"),
        pytest.param(5, 4.0, 0.5541, id="Gross table: five servers with four in work"),
        pytest.param(10, 8.0, 0.4092, id="ten servers at 80 %"),
        pytest.param(3, 3.0, 1.0, id="all busy for ever"),
        pytest.param(1000, 0.001, 0.0, id="far more servers than work"),
        pytest.param(10_000, 9_900.0, 0.22278, id="ten thousand servers at 99 %"),
    ],
)
def test_the_share_that_waits_is_erlangs(servers, offered, expected):
    assert wait_probability(servers=servers, offered=offered) == pytest.approx(expected, abs=6e-5)


@settings(max_examples=40)
@given(servers=st.integers(1, 60), utilization=st.floats(0.01, 0.99))
def test_the_share_that_waits_agrees_with_the_textbook_sum(servers, utilization):
    offered = servers * utilization
    last = offered**servers / math.factorial(servers) / (1 - utilization)
    textbook = last / (sum(offered**k / math.factorial(k) for k in range(servers)) + last)
    assert wait_probability(servers=servers, offered=offered) == pytest.approx(textbook, rel=1e-9)


@pytest.mark.parametrize(
    ("servers", "arrivals", "within_s", "expected"),
    [
        pytest.param(2, 1.0, 2.0, math.exp(-2) / 3, id="the worked example"),
        pytest.param(2, 1.0, 0.0, 1 / 3, id="within no time: all that wait"),
        pytest.param(1, 1.0, 2.0, 1.0, id="as much work as servers: all are late in the end"),
    ],
)
def test_the_share_that_is_late(servers, arrivals, within_s, expected):
    late = late_share(servers=servers, arrivals_per_s=arrivals, service_time_s=1.0, within_s=within_s)
    assert late == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arrivals", "service_s", "slots", "percent", "expected"),
    [
        pytest.param(1.0, 1.0, 2, 90, 1, id="the worked example: one replica for 90 %"),
        pytest.param(1.0, 1.0, 2, 99, 2, id="two for 99 %"),
        pytest.param(1.0, 1.0, 1, 90, 2, id="an offered load of exactly one slot needs two"),
        pytest.param(0.001, 1.0, 256, 99.9, 1, id="hardly any load: one"),
        pytest.param(10.0, 20.0, 64, 99, 4, id="200 slots of work in replicas of 64"),
        pytest.param(100.0, 3600.0, 1, 99.9, 361_700, id="a very large pool needs little on top"),
    ],
)
def test_replicas_are_the_fewest_that_hold_the_objective(arrivals, service_s, slots, percent, expected):
    objective = Objective(within_s=2.0, percent=percent)
    replicas = replicas_for(
        arrivals_per_s=arrivals, service_time_s=service_s, slots=slots, objective=objective
    )
    assert replicas == expected


def test_a_queue_is_stable_from_the_replica_above_the_offered_work():
    assert least_stable_replicas(offered=10.0, slots=4) == 3
    assert least_stable_replicas(offered=8.0, slots=4) == 3


LOADS = {
    "arrivals": st.floats(0.001, 50),
    "service_s": st.floats(0.05, 60),
    "slots": st.integers(1, 300),
    "percent": st.floats(50, 99.9),
}


@settings(max_examples=40)
@given(**LOADS)
def test_one_replica_fewer_does_not_hold_it(arrivals, service_s, slots, percent):
    objective = Objective(within_s=2.0, percent=percent)
    replicas = replicas_for(
        arrivals_per_s=arrivals, service_time_s=service_s, slots=slots, objective=objective
    )

    def late(count):
        return late_share(
            servers=count * slots, arrivals_per_s=arrivals, service_time_s=service_s, within_s=2.0
        )

    assert late(replicas) <= objective.late_share
    assert replicas == 1 or late(replicas - 1) > objective.late_share


@settings(max_examples=40)
@given(**LOADS, more=st.floats(1, 3))
def test_more_load_never_needs_fewer(arrivals, service_s, slots, percent, more):
    objective = Objective(within_s=2.0, percent=percent)

    def replicas(factor):
        return replicas_for(
            arrivals_per_s=arrivals * factor, service_time_s=service_s, slots=slots, objective=objective
        )

    assert replicas(1) <= replicas(more)
