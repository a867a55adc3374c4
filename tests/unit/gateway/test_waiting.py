from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gateway.waiters import Waiter

from stoker.gateway.waiting import Waiting


def a_waiter(name="", *, deadline_s=30.0, **fields):
    waiter = Waiter(name, **fields)
    waiter.deadline_s = deadline_s
    return waiter


def waiting_of(*waiters):
    waiting = Waiting()
    for waiter in waiters:
        waiting.add(waiter, 0.0)
    return waiting


def taken_in_order(waiting):
    order = []
    while waiting:
        level = waiting.levels()[0]
        waiter = next(iter(level.retries), None) or level.first()
        waiting.take(waiter)
        order.append(waiter)
    return order


WAITERS = st.lists(
    st.builds(a_waiter, priority=st.integers(-1, 1), workload=st.sampled_from("abc")), max_size=30
)


def all_came_in_their_order(order, waiters):
    """Each once; by priority, and by arrival within a workload."""
    assert sorted(map(id, order)) == sorted(map(id, waiters))
    assert [w.priority for w in order] == sorted((w.priority for w in order), reverse=True)
    for priority in (-1, 0, 1):
        for workload in "abc":
            lane = [w for w in waiters if (w.priority, w.workload) == (priority, workload)]
            assert [w for w in order if w in lane] == lane


@given(WAITERS)
def test_all_come_out_once_by_priority_and_by_arrival_within_a_workload(waiters):
    all_came_in_their_order(taken_in_order(waiting_of(*waiters)), waiters)


@given(WAITERS)
def test_no_workload_gets_two_turns_while_another_of_its_priority_gets_none(waiters):
    for waiter in waiters:
        waiter.priority = 0
    order = "".join(w.workload for w in taken_in_order(waiting_of(*waiters)))
    for at, workload in enumerate(order):
        others = set(order[at + 1 :]) - {workload}
        until_next = order[at + 1 :].partition(workload)[0]
        assert others <= set(until_next) or workload not in order[at + 1 :]


@given(st.lists(st.sampled_from("abc"), min_size=4, max_size=30))
def test_one_that_waits_is_not_starved_by_a_flood_that_never_ends(flood):
    waiting = waiting_of(*(a_waiter(workload=workload) for workload in flood))
    mine = a_waiter(workload="mine")
    waiting.add(mine, 0.0)
    turns = 0
    while mine in waiting:
        waiting.take(waiting.levels()[0].first())
        for workload in flood:
            waiting.add(a_waiter(workload=workload), 0.0)
        turns += 1
    assert turns <= len(set(flood)) + 1


def test_retries_come_first_in_the_order_in_which_they_failed():
    waiting = waiting_of(a_waiter("new"))
    for name in ("r1", "r2"):
        waiting.add_retry(a_waiter(name), 1.0)
    assert [w.name for w in taken_in_order(waiting)] == ["r1", "r2", "new"]


@given(WAITERS, st.data())
def test_whoever_is_removed_leaves_no_trace(waiters, data):
    waiting = waiting_of(*waiters)
    kept = list(waiters)
    for waiter in waiters:
        if data.draw(st.booleans()):
            waiting.remove(waiter)
            kept.remove(waiter)
    assert (len(waiting), list(waiting)) == (len(kept), kept)
    all_came_in_their_order(taken_in_order(waiting), kept)
    assert waiting.levels() == []
    assert waiting.next_deadline_s() is None


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans()), max_size=30), st.floats(0, 100))
def test_waits_are_over_in_the_order_of_their_deadlines(entries, now_s):
    waiting = Waiting()
    left = []
    for deadline_s, stays in entries:
        waiter = a_waiter(deadline_s=deadline_s)
        waiting.add(waiter, 0.0)
        if stays:
            left.append(deadline_s)
        else:
            waiting.remove(waiter)
    over = []
    while (waiter := waiting.next_over(now_s)) is not None:
        over.append(waiter.deadline_s)
        waiting.remove(waiter)
    assert over == sorted(d for d in left if d <= now_s)
    assert waiting.next_deadline_s() == min((d for d in left if d > now_s), default=None)


@given(WAITERS, st.integers(-1, 1), st.sampled_from("abcd"), st.integers(0, 2))
def test_how_many_are_ahead_is_true_but_for_one_turn_of_the_other_workloads(
    waiters, priority, workload, taken
):
    waiting = waiting_of(*waiters)
    for _ in range(min(taken, len(waiters))):
        waiting.take(waiting.levels()[0].first())
    newcomer = a_waiter(priority=priority, workload=workload)
    ahead = waiting.ahead_of(newcomer)
    others = [w for w in waiting if w.priority == priority and w.workload != workload]
    waiting.add(newcomer, 0.0)
    exact = taken_in_order(waiting).index(newcomer)
    assert ahead <= exact <= ahead + len({w.workload for w in others})


def test_the_worked_example_of_who_is_ahead():
    names = "mm" + "a" + "b" * 5 + "c" * 9
    waiting = waiting_of(*(a_waiter(workload=name) for name in names))
    assert waiting.ahead_of(a_waiter(workload="m")) == 7


def test_a_workload_that_waits_for_the_first_time_is_behind_one_of_each_other():
    waiting = waiting_of(*(a_waiter(workload=name) for name in "abbb"))
    assert waiting.ahead_of(a_waiter(workload="m")) == 2


def test_retries_are_ahead_of_their_priority_and_lower_ones():
    waiting = waiting_of(a_waiter(priority=1))
    waiting.add_retry(a_waiter(), 0.0)
    assert [waiting.ahead_of(a_waiter(priority=p)) for p in (-1, 0, 1, 2)] == [2, 2, 1, 0]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1), st.booleans()), max_size=30),
    st.integers(30, 70),
)
def test_past_half_are_those_that_have_waited_for_more_than_half_of_their_time(entries, now_s):
    waiting = Waiting()
    left = []
    for since_s, priority, stays in sorted(entries):
        waiter = a_waiter(priority=priority, deadline_s=since_s + 40.0)
        waiting.add(waiter, float(since_s))
        # Whether a look is taken in between changes nothing.
        waiting.past_half(0, float(since_s))
        if stays:
            left.append((since_s, priority))
        else:
            waiting.remove(waiter)
    for least in (0, 1, 2):
        expected = sum(since_s + 20 <= now_s and priority >= least for since_s, priority in left)
        assert waiting.past_half(least, float(now_s)) == expected


def test_one_that_was_past_half_and_left_counts_no_more():
    waiters = [a_waiter(deadline_s=30.0) for _ in range(3)]
    waiting = waiting_of(*waiters)
    assert waiting.past_half(0, 15.0) == 3
    waiting.take(waiters[0])
    assert waiting.past_half(0, 15.0) == 2


def test_a_retry_counts_as_past_half_at_once():
    waiting = waiting_of(a_waiter())
    retry = a_waiter()
    waiting.add_retry(retry, 0.0)
    assert waiting.past_half(0, 0.0) == 1
    waiting.take(retry)
    assert waiting.past_half(0, 0.0) == 0


def test_tokens_are_those_of_all_that_wait():
    waiters = [a_waiter(tokens=n) for n in (5, 7)]
    waiting = waiting_of(*waiters)
    assert waiting.tokens == 12
    waiting.remove(waiters[0])
    assert waiting.tokens == 7
