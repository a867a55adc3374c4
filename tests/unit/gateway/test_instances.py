import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gateway.waiters import an_instance

from stoker.gateway.instances import Evidence, Instance


def fail(instance, now_s, *, times=1, evidence=Evidence.FAILED):
    for _ in range(times):
        instance.release(instance.acquire(now_s), evidence, now_s)


def test_gets_no_requests_before_it_is_ready():
    instance = Instance(name="a", host="h", port=1, revision="r", model_version="", limit=4)
    assert not instance.usable(0)
    instance.begin(0)
    assert instance.usable(0)


@pytest.mark.parametrize(
    ("age_s", "room"),
    [
        pytest.param(0, 5, id="a quarter at first"),
        pytest.param(2.5, 12, id="the worked example: half of the time, 12 of 20"),
        pytest.param(5, 20, id="all after five seconds"),
        pytest.param(-1, 5, id="a clock that is a little behind counts as new"),
    ],
)
def test_a_new_instance_gets_few_requests_at_first(age_s, room):
    instance = an_instance(limit=20, ready_since_s=100)
    taken = 0
    while instance.has_room(100 + age_s):
        instance.acquire(100 + age_s)
        taken += 1
    assert taken == room


def test_even_a_new_instance_for_one_request_gets_one():
    instance = an_instance(limit=1, ready_since_s=0)
    assert instance.has_room(0)
    instance.acquire(0)
    assert not instance.has_room(0)


def test_load_counts_what_the_other_replicas_have_while_that_is_fresh():
    instance = an_instance(limit=10)
    for _ in range(3):
        instance.acquire(0)
    instance.says_in_flight(7, 0)
    loads = [instance.load(now_s) for now_s in (0, 5, 10, 20)]
    assert loads == pytest.approx([0.7, 0.5, 0.3, 0.3])


def test_an_engine_that_counts_fewer_than_we_sent_has_none_of_others():
    instance = an_instance(limit=10)
    instance.acquire(0)
    instance.says_in_flight(0, 0)
    assert instance.load(0) == pytest.approx(0.1)


def test_a_new_instance_seems_as_loaded_as_it_is_for_what_it_may_take():
    assert an_instance(limit=20, ready_since_s=0).load(0) == 0
    new = an_instance(limit=20, ready_since_s=0)
    new.acquire(0)
    assert new.load(0) == pytest.approx(1 / 5)


def test_three_failures_in_a_row_eject_and_an_answer_between_them_does_not():
    instance = an_instance()
    fail(instance, 0, times=2)
    fail(instance, 0, evidence=Evidence.ANSWERED)
    fail(instance, 0, times=2)
    assert instance.usable(0)
    fail(instance, 0)
    assert not instance.usable(0)


def test_a_client_that_leaves_says_nothing_about_the_instance():
    instance = an_instance()
    fail(instance, 0, times=2)
    fail(instance, 0, times=5, evidence=Evidence.NONE)
    assert instance.usable(0)
    fail(instance, 0)
    assert not instance.usable(0)


def test_one_first_byte_timeout_ejects_an_instance_that_answers_nobody():
    """G7: one engine accepts and never answers."""
    instance = an_instance()
    fail(instance, 60, evidence=Evidence.SILENT)
    assert not instance.usable(60)


def test_one_slow_request_does_not_eject_an_instance_that_answers_others():
    instance = an_instance()
    slow = instance.acquire(0)
    instance.answered(instance.acquire(55), 55)
    instance.release(slow, Evidence.SILENT, 60)
    assert instance.usable(60)


def test_after_the_pause_one_request_at_a_time_tries_it():
    instance = an_instance(limit=10)
    fail(instance, 0, times=3)
    assert not instance.usable(4.9)
    assert instance.usable(5)
    ticket = instance.acquire(5)
    assert not instance.usable(5)
    instance.release(ticket, Evidence.NONE, 6)
    assert instance.usable(6)
    ticket = instance.acquire(6)
    instance.answered(ticket, 6.5)
    assert instance.usable(6.5)


def test_one_that_is_readmitted_begins_slowly():
    instance = an_instance(limit=10)
    fail(instance, 0, times=3)
    instance.answered(instance.acquire(5), 5)
    assert instance.in_flight == 1
    instance.acquire(5)
    assert not instance.has_room(5)
    assert instance.has_room(10)


def test_each_failed_trial_doubles_the_pause_up_to_two_minutes():
    instance = an_instance()
    fail(instance, 0, times=3)
    pauses = []
    now_s = 0.0
    for _ in range(7):
        pauses.append(instance.ejected_until_s - now_s)
        now_s = instance.ejected_until_s
        fail(instance, now_s)
    assert pauses == [5, 10, 20, 40, 80, 120, 120]


def test_the_pause_stays_long_for_one_that_fails_again_soon_and_is_short_after_two_good_minutes():
    instance = an_instance()
    fail(instance, 0, times=3)
    fail(instance, 5)
    instance.answered(instance.acquire(15), 15)
    fail(instance, 20, times=3)
    assert instance.ejected_until_s == 20 + 20
    instance.answered(instance.acquire(40), 40)
    fail(instance, 161, times=3)
    assert instance.ejected_until_s == 161 + 5


def test_the_requests_that_one_crash_ends_count_as_one_crash():
    instance = an_instance(limit=20)
    tickets = [instance.acquire(0) for _ in range(20)]
    for ticket in tickets:
        instance.release(ticket, Evidence.FAILED, 1)
    assert instance.ejected_until_s == 6
    assert instance.in_flight == 0


def test_what_was_sent_before_the_ejection_does_not_readmit():
    instance = an_instance(limit=20)
    old = instance.acquire(0)
    fail(instance, 1, times=3)
    instance.answered(old, 2)
    instance.release(old, Evidence.ANSWERED, 2)
    assert not instance.usable(2)


def test_an_answer_while_it_is_ejected_readmits_it_if_the_request_came_later():
    """It was used because all were ejected."""
    instance = an_instance()
    fail(instance, 0, times=3)
    instance.answered(instance.acquire(1), 1)
    assert instance.usable(1)


def test_failures_of_one_that_is_used_while_ejected_keep_it_ejected_without_doubling():
    instance = an_instance()
    fail(instance, 0, times=3)
    fail(instance, 2)
    fail(instance, 3)
    assert instance.ejected_until_s == 3 + 5


def test_it_is_settled_when_time_alone_changes_nothing():
    instance = an_instance(ready_since_s=0)
    assert [instance.settled(0), instance.settled(5)] == [False, True]
    fail(instance, 6, times=3)
    assert not instance.settled(100)


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["acquire", "answered", "release", "wait"]),
            st.integers(0, 5),
            st.sampled_from(Evidence),
        ),
        max_size=60,
    )
)
def test_in_flight_is_always_what_was_acquired_and_not_released(steps):
    instance = an_instance(limit=100)
    tickets = []
    now_s = 0.0
    for what, number, evidence in steps:
        if what == "acquire":
            tickets.append(instance.acquire(now_s))
        elif what == "wait":
            now_s += number * 3
        elif tickets and what == "answered":
            instance.answered(tickets[number % len(tickets)], now_s)
        elif tickets:
            instance.release(tickets.pop(number % len(tickets)), evidence, now_s)
        assert instance.in_flight == len(tickets)
        assert instance.load(now_s) >= 0
