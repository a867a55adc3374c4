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


def test_tokens_are_those_of_all_that_wait():
    waiters = [a_waiter(tokens=n) for n in (5, 7)]
    waiting = waiting_of(*waiters)
    assert waiting.tokens == 12
    waiting.remove(waiters[0])
    assert waiting.tokens == 7
