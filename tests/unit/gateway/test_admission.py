import pytest
from tests.unit.gateway.waiters import Queue, Waiter, an_instance

from stoker.gateway.errors import Code, Rejection
from stoker.gateway.instances import Evidence


def started(waiters):
    return [w.name for w in waiters if w.instance]


@pytest.fixture
def one():
    """An instance for one request."""
    return an_instance(limit=1)


def test_a_request_starts_at_once_where_there_is_room(one):
    assert Queue(one).offered().instance is one


def test_the_first_to_come_starts_first(one):
    queue = Queue(one)
    waiters = [queue.offered(str(i)) for i in range(3)]
    assert (queue.queued, started(waiters)) == (2, ["0"])
    queue.release(waiters[0])
    assert started(waiters) == ["0", "1"]
    queue.release(waiters[1])
    assert queue.queued == 0


def test_the_higher_priority_starts_first(one):
    queue = Queue(one)
    first = queue.offered()
    low, high, higher = (queue.offered(priority=p) for p in (-1, 1, 2))
    order = []
    for done in (first, higher, high):
        queue.release(done)
        order.append([bool(w.instance) for w in (low, high, higher)])
    assert order == [[False, False, True], [False, True, True], [True, True, True]]


def test_workloads_take_turns(one):
    queue = Queue(one)
    last = queue.offered()
    names = ["a1", "a2", "a3", "b1", "c1", "c2"]
    waiters = [queue.offered(name, workload=name[0]) for name in names]
    order = []
    while queue.queued:
        queue.release(last)
        last = next(w for w in waiters if w.instance and w.name not in order)
        order.append(last.name)
    assert order == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_a_full_queue_refuses_with_429_and_the_time_to_drain():
    """G1: full queue."""
    queue = Queue(an_instance(limit=1), max_requests=2)
    first = queue.offered()
    second = queue.offered()
    queue.release(first, 1.0)
    queue.release(second, 2.0)
    queue.offered()
    queue.offered()
    queue.offered()
    refused = queue.offered(now_s=2.0)
    assert refused.code == "queue_full"
    rejection = refused.outcomes[0]
    assert rejection.status == 429
    # One a second lately, and two wait.
    assert rejection.retry_after_s == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    ("facts", "retry_after_s"),
    [
        pytest.param({}, 120, id="nothing is expected: come back much later"),
        pytest.param(
            {"starting": True, "next_instance_at_s": 190.0}, 90, id="the next is expected after the bound"
        ),
        pytest.param(
            {"starting": True, "next_instance_at_s": 110.0, "max_requests": 0}, 10, id="none may wait"
        ),
        pytest.param({"zero": True, "next_instance_at_s": 145.0}, 45, id="waking takes too long"),
    ],
)
def test_without_an_instance_it_refuses_with_503_and_the_remaining_start_time(facts, retry_after_s):
    """G1: zero instances; instance loading."""
    refused = Queue(**facts).offered(now_s=100.0)
    assert refused.code == "no_instance"
    assert refused.outcomes[0].status == 503
    assert refused.outcomes[0].retry_after_s == retry_after_s


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"starting": True}, id="one starts, nobody knows how long"),
        pytest.param({"starting": True, "next_instance_at_s": 120.0}, id="one is expected in time"),
        pytest.param({"starting": True, "next_instance_at_s": 90.0}, id="one is overdue"),
        pytest.param({"zero": True}, id="the service is woken from zero"),
    ],
)
def test_waits_for_an_instance_that_is_expected_in_time(facts):
    queue = Queue(**facts)
    waiter = queue.offered(now_s=100.0)
    assert waiter.waits
    queue.set(an_instance(), now_s=115.0)
    assert waiter.instance


def test_an_instance_that_does_not_come_in_time_is_no_instance_and_not_a_slow_queue():
    queue = Queue(starting=True)
    waiter = queue.offered()
    assert queue.expire(29.9) == pytest.approx(0.1)
    assert waiter.waits
    assert queue.expire(30.0) is None
    assert waiter.code == "no_instance"


def test_a_wait_that_is_too_long_ends_with_503_queue_timeout(one):
    queue = Queue(one)
    queue.offered()
    waiter = queue.offered(now_s=1.0)
    assert queue.expire(2.0) == 29.0
    queue.expire(31.0)
    assert waiter.code == "queue_timeout"
    assert waiter.outcomes[0].status == 503


def test_those_that_wait_are_refused_when_nothing_is_expected_any_more():
    queue = Queue(starting=True, next_instance_at_s=20.0)
    waiter = queue.offered()
    queue.starting = False
    queue.pump(5.0)
    assert waiter.code == "no_instance"


def test_a_queue_for_none_lets_none_wait(one):
    queue = Queue(one, max_requests=0)
    assert queue.offered().instance
    refused = queue.offered()
    assert refused.code == "queue_full"


def test_a_waiter_whose_client_left_never_reaches_an_instance(one):
    queue = Queue(one)
    first, left, last = queue.offered(), queue.offered(), queue.offered()
    assert queue.leave(left)
    assert not queue.leave(left)
    queue.release(first)
    assert (left.outcomes, last.instance) == ([], one)


def test_a_retry_goes_to_the_front_and_keeps_its_deadline():
    a, b = an_instance("a", limit=1), an_instance("b", limit=1)
    queue = Queue(a, b)
    failed, busy = queue.offered(), queue.offered(now_s=4.0)
    waiting = queue.offered(now_s=5.0)
    failed.release(Evidence.FAILED)
    failed.excluded.append(failed.instance)
    failed.outcomes.clear()
    assert queue.requeue(failed, 6.0)
    # The slot that it left is not for itself, but for who waits.
    queue.finished(6.0)
    assert waiting.instance is failed.excluded[0]
    later = queue.offered(now_s=7.0)
    queue.release(busy, 8.0)
    assert failed.instance is busy.instance
    assert (later.waits, failed.deadline_s) == (True, 30.0)


def test_a_retry_that_waits_too_long_is_refused_at_its_first_deadline():
    a, b = an_instance("a", limit=1), an_instance("b", limit=1)
    queue = Queue(a, b)
    failed = queue.offered()
    queue.offered()
    failed.excluded.append(failed.instance)
    failed.outcomes.clear()
    assert queue.requeue(failed, 20.0)
    queue.expire(30.0)
    assert failed.code == "queue_timeout"


@pytest.mark.parametrize(
    ("max_requests", "now_s", "starting", "taken"),
    [
        pytest.param(10, 1.0, False, False, id="there is no other instance, and none is expected"),
        pytest.param(10, 1.0, True, True, id="another one is expected"),
        pytest.param(10, 30.0, True, False, id="its time is over"),
        pytest.param(0, 1.0, True, False, id="none may wait"),
    ],
)
def test_a_retry_is_taken_only_if_another_instance_may_take_it(one, max_requests, now_s, starting, taken):
    queue = Queue(one, max_requests=max_requests, starting=starting)
    waiter = queue.offered()
    waiter.release(Evidence.FAILED)
    waiter.excluded.append(one)
    assert queue.requeue(waiter, now_s) is taken
    assert queue.queued == taken


def test_a_retry_that_waits_for_another_instance_holds_up_nobody(one):
    other = an_instance("b", limit=1)
    queue = Queue(one, other)
    failed = queue.offered()
    busy = queue.offered()
    failed.release(Evidence.FAILED)
    failed.excluded.append(failed.instance)
    failed.outcomes.clear()
    assert queue.requeue(failed, 1.0)
    assert queue.offered(now_s=1.0).instance is failed.excluded[0]
    assert failed.waits
    queue.release(busy, 2.0)
    assert failed.instance is busy.instance


def test_the_first_instance_gets_only_what_fits_and_begins_slowly():
    queue = Queue(starting=True, max_requests=100)
    waiters = [queue.offered(str(i)) for i in range(50)]
    queue.set(an_instance(limit=20, ready_since_s=10.0), now_s=10.0)
    assert len(started(waiters)) == 5
    assert queue.expire(10.0) == pytest.approx(0.1)
    for tenth in range(1, 100):
        queue.expire(10.0 + tenth / 10)
    assert len(started(waiters)) == 20
    assert started(waiters) == [str(i) for i in range(20)]


def test_a_service_at_zero_is_woken_once():
    queue = Queue(zero=True)
    for now_s in (0.0, 1.0, 29.0):
        queue.offered(now_s=now_s)
    assert queue.woken == 1


def test_it_is_woken_again_after_half_a_minute_without_an_instance_as_the_signal_may_be_lost():
    queue = Queue(zero=True)
    for now_s in (0.0, 30.0, 31.0):
        queue.offered(now_s=now_s)
    assert queue.woken == 2


def test_each_time_at_zero_is_woken():
    queue = Queue(zero=True)
    queue.offered()
    queue.set(an_instance(), now_s=5.0)
    queue.set(now_s=6.0)
    queue.offered(now_s=7.0)
    assert queue.woken == 2


def test_a_service_that_is_not_at_zero_is_not_woken():
    queue = Queue(starting=True)
    queue.offered()
    assert queue.woken == 0


def test_whoever_floods_the_queue_leaves_places_for_others(one):
    queue = Queue(one, max_requests=4)
    queue.offered()
    flood = [queue.offered(str(i), workload="flood") for i in range(6)]
    assert [w.code for w in flood] == [None] * 4 + ["queue_full"] * 2
    other = [queue.offered(workload="other") for _ in range(4)]
    assert [w.waits for w in flood] == [True] * 2 + [False] * 4
    assert [w.waits for w in other] == [True, True, False, False]


def test_a_higher_priority_takes_the_place_of_the_newest_of_the_lowest(one):
    queue = Queue(one, max_requests=3)
    queue.offered()
    low = [queue.offered(priority=-1, workload=w) for w in "aab"]
    high = [queue.offered(priority=5) for _ in range(4)]
    assert [w.code for w in low] == ["queue_full"] * 3
    assert [w.code for w in high] == [None] * 3 + ["queue_full"]
    assert queue.offered(priority=-1).code == "queue_full"


def test_a_retry_is_never_put_out_for_a_newcomer():
    a, b = an_instance("a", limit=1), an_instance("b", limit=1)
    queue = Queue(a, b, max_requests=1)
    failed, _ = queue.offered(), queue.offered()
    failed.excluded.append(failed.instance)
    failed.outcomes.clear()
    queue.requeue(failed, 1.0)
    assert queue.offered(now_s=1.0, priority=9).code == "queue_full"
    assert failed.waits


@pytest.mark.parametrize(
    ("tokens", "waits"),
    [
        pytest.param([600, 400], [True, True], id="as many tokens as the bound"),
        pytest.param([600, 401], [True, False], id="one token too many"),
        pytest.param([600, 0], [True, True], id="unknown tokens count as none"),
        pytest.param([5000, 1], [True, False], id="one that is too large may wait alone"),
    ],
)
def test_the_bound_counts_tokens_where_requests_say_them(one, tokens, waits):
    queue = Queue(one, max_tokens=1000)
    queue.offered()
    waiters = [queue.offered(tokens=n) for n in tokens]
    assert [w.waits for w in waiters] == waits
    assert queue.queued_tokens == sum(n for n, w in zip(tokens, waits, strict=True) if w)


def test_no_request_counts_more_tokens_than_its_context_can_hold(one):
    queue = Queue(one, max_tokens=1000, context_length=400)
    queue.offered()
    waiters = [queue.offered(tokens=10**9) for _ in range(3)]
    assert [w.waits for w in waiters] == [True, True, False]
    assert queue.queued_tokens == 800


def test_a_draining_gateway_takes_nothing_new_and_serves_those_that_wait(one):
    queue = Queue(one)
    first, waiting = queue.offered(), queue.offered()
    queue.drain()
    assert queue.offered().code == "draining"
    queue.release(first)
    assert waiting.instance is one


def test_at_the_end_all_that_wait_are_refused(one):
    queue = Queue(one)
    queue.offered()
    waiters = [queue.offered() for _ in range(3)]
    queue.refuse_all(Rejection(code=Code.DRAINING, message="m"))
    assert [w.code for w in waiters] == ["draining"] * 3
    assert queue.queued == 0


def test_a_refused_waiter_may_make_another_one_leave(one):
    queue = Queue(one)
    queue.offered()
    first, second = queue.offered(), queue.offered()
    first.refuse = lambda rejection: queue.leave(second)
    queue.refuse_all(Rejection(code=Code.DRAINING, message="m"))
    assert (queue.queued, second.outcomes) == (0, [])


def test_a_waiter_that_ends_as_it_starts_makes_room_for_the_next(one):
    """Its connection fails at once, within `start`."""
    queue = Queue(one)
    first = queue.offered()
    waiters = [Waiter(str(i)) for i in range(3)]
    for waiter in waiters[:2]:
        waiter.start = lambda instance, w=waiter: (w.outcomes.append("ended"), queue.finished(1.0))
    for waiter in waiters:
        queue.offer(waiter, 0.0)
    queue.release(first, 1.0)
    assert [w.outcomes for w in waiters] == [["ended"], ["ended"], ["started"]]


def test_ejected_instances_are_used_when_there_is_no_other(one):
    queue = Queue(one)
    for _ in range(3):
        queue.offered().release(Evidence.FAILED)
    assert not one.usable(0)
    assert queue.offered().instance is one


def test_the_drain_rate_counts_whatever_frees_a_slot(one):
    queue = Queue(one)
    for now_s in range(11):
        queue.release(queue.offered(now_s=float(now_s)), float(now_s))
    assert queue.finished_per_s(10.0) == pytest.approx(1.0, rel=0.05)


def test_how_long_the_first_waits(one):
    queue = Queue(one)
    assert queue.oldest_wait_s(9.0) == 0
    queue.offered()
    first = queue.offered(now_s=10.0)
    queue.offered(now_s=12.0)
    assert queue.oldest_wait_s(15.0) == 5.0
    queue.leave(first)
    assert queue.oldest_wait_s(15.0) == 3.0


@pytest.mark.parametrize(
    ("facts", "code", "part"),
    [
        pytest.param({"max_requests": 0}, "queue_full", "may hold no requests", id="a queue for none"),
        pytest.param({"max_requests": 1}, "queue_full", "1 requests wait", id="a full one"),
        pytest.param({"max_tokens": 9}, "queue_full", "1 requests for 7 tokens wait", id="full of tokens"),
    ],
)
def test_a_message_names_the_service_and_the_number(one, facts, code, part):
    queue = Queue(one, **facts)
    for _ in range(2):
        queue.offered(tokens=7)
    refused = queue.offered(tokens=7)
    assert refused.code == code
    assert "demo/chat" in refused.outcomes[0].message
    assert part in refused.outcomes[0].message


def test_waiters_that_come_and_leave_leave_nothing_behind(one):
    queue = Queue(one)
    queue.offered()
    for _ in range(10_000):
        queue.leave(queue.offered())
    assert len(queue._waiting._deadlines) < 100


def test_nor_do_they_behind_one_that_waits_on(one):
    queue = Queue(one)
    queue.offered()
    queue.offered()
    for _ in range(10_000):
        queue.leave(queue.offered())
    assert len(queue._waiting._young) < 100
