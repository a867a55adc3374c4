import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.signals.gateway_totals import GatewayTotals

CHAT = ("demo", "chat")
ARRIVED = ("arrived",)
BEFORE_US, AFTER_US = 50.0, 150.0


@pytest.fixture
def totals():
    return GatewayTotals(began_s=100.0)


def report(totals, process, arrived, *, began_s=BEFORE_US, now_s=200.0, number=1, key=CHAT):
    totals.take(process, {key: (number, {ARRIVED: arrived})}, process_began_s=began_s, now_s=now_s)
    return totals.of(CHAT).get(ARRIVED)


def test_a_process_that_was_there_before_counts_from_its_first_report(totals):
    assert [report(totals, "p", n) for n in (1000, 1003, 1003, 1010)] == [0, 3, 3, 10]


def test_a_process_that_began_later_counts_from_zero(totals):
    assert [report(totals, "p", n, began_s=AFTER_US) for n in (5, 8)] == [5, 8]


def test_a_restart_neither_loses_nor_repeats(totals):
    report(totals, "old", 1000)
    report(totals, "old", 1010)
    assert report(totals, "new", 4, began_s=AFTER_US) == 14


def test_replicas_add_up(totals):
    report(totals, "a", 10, began_s=AFTER_US)
    assert report(totals, "b", 5, began_s=AFTER_US) == 15


def test_a_service_that_appears_in_a_known_process_counts_from_zero(totals):
    totals.take("p", {}, process_began_s=BEFORE_US, now_s=199.0)
    assert report(totals, "p", 7) == 7


def test_a_service_that_was_away_for_a_moment_is_not_counted_twice(totals):
    report(totals, "p", 1000)
    totals.take("p", {}, process_began_s=BEFORE_US, now_s=201.0)
    assert report(totals, "p", 1002) == 2


def test_a_count_that_began_anew_counts_from_zero(totals):
    report(totals, "p", 1000, number=1)
    assert report(totals, "p", 3, number=2) == 3


def test_a_count_that_falls_by_a_few_takes_nothing_back(totals):
    assert [report(totals, "p", n, began_s=AFTER_US) for n in (10, 8, 11)] == [10, 10, 13]


def test_a_count_that_is_new_in_a_known_process_counts_from_zero(totals):
    report(totals, "p", 5)
    totals.take(
        "p",
        {CHAT: (1, {ARRIVED: 5, ("refused", "queue_full"): 2})},
        process_began_s=BEFORE_US,
        now_s=201.0,
    )
    assert totals.of(CHAT)["refused", "queue_full"] == 2


def test_what_was_not_heard_of_for_an_hour_is_forgotten(totals):
    report(totals, "p", 5, began_s=AFTER_US)
    report(totals, "q", 1, began_s=AFTER_US, now_s=200.0 + 3601, key=("demo", "other"))
    assert totals.of(CHAT) == {}


def test_a_service_that_was_never_heard_of_has_no_totals(totals):
    assert totals.of(CHAT) == {}


@given(
    steps=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.booleans()),
        max_size=40,
    )
)
@settings(max_examples=60, deadline=None)
def test_whatever_restarts_or_is_lost_the_sum_is_what_was_reported(steps):
    """Three replicas; each step some requests arrive at one, then perhaps its process is replaced."""
    totals = GatewayTotals(began_s=0.0)
    counts = dict.fromkeys("abc", 0)
    lives = dict.fromkeys("abc", 0)
    arrived = 0
    for replica, more, restarts in steps:
        counts[replica] += more
        arrived += more
        report(totals, f"{replica}{lives[replica]}", counts[replica], began_s=1.0)
        if restarts:
            counts[replica] = 0
            lives[replica] += 1
    assert (totals.of(CHAT).get(ARRIVED) or 0) == arrived
