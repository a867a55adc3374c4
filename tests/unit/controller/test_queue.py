import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.clock import Clock

from stoker.controller.queue import Key, WorkQueue

A, B, C = (Key("demo", name) for name in "abc")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def queue(clock):
    return WorkQueue(clock=clock, spread=lambda: 0.0)


def test_a_key_that_waits_is_not_added_again(queue):
    queue.add(A)
    queue.add(A)
    assert (queue.take(), queue.take()) == (A, None)


def test_keys_come_in_the_order_in_which_they_were_added(queue):
    for key in (B, A, C):
        queue.add(key)
    assert [queue.take() for _ in range(3)] == [B, A, C]


def test_a_key_that_is_worked_on_is_not_handed_out_again_but_runs_once_more_afterwards(queue):
    queue.add(A)
    queue.take()
    queue.add(A)
    queue.add(A)
    assert queue.take() is None
    queue.done(A)
    assert (queue.take(), queue.take()) == (A, None)


def test_a_later_key_comes_when_it_is_due_and_not_before(queue, clock):
    queue.add_after(A, 10)
    clock.now_s = 9.9
    assert queue.take() is None
    clock.now_s = 10
    assert queue.take() == A


def test_the_earlier_of_two_times_counts(queue, clock):
    queue.add_after(A, 10)
    queue.add_after(A, 300)
    queue.add_after(A, 5)
    clock.now_s = 5
    assert queue.take() == A
    queue.done(A)
    clock.now_s = 400
    assert queue.take() is None


def test_looking_now_replaces_looking_later(queue, clock):
    queue.add_after(A, 10)
    queue.add(A)
    assert queue.take() == A
    queue.done(A)
    clock.now_s = 20
    assert queue.take() is None


@pytest.mark.parametrize(
    ("failures", "spread", "expected_s"),
    [
        pytest.param(4, 0.0, 4.0, id="the fourth failure in a row waits 0.5 s times 2 to the 3"),
        pytest.param(1, 0.0, 0.5, id="the first failure waits half a second"),
        pytest.param(1, 0.5, 0.5625, id="chance adds up to a quarter"),
        pytest.param(40, 0.0, 300.0, id="never more than five minutes, and no overflow"),
    ],
)
def test_the_backoff_doubles_with_each_failure(clock, failures, spread, expected_s):
    queue = WorkQueue(clock=clock, spread=lambda: spread)
    for _ in range(failures):
        delay_s = queue.add_failed(A)
    assert delay_s == expected_s


def test_success_makes_the_next_backoff_small_again(queue):
    for _ in range(5):
        queue.add_failed(A)
    queue.succeeded(A)
    assert queue.add_failed(A) == 0.5


def test_the_backoff_is_never_shorter_than_what_the_server_asked_for(queue):
    assert queue.add_failed(A, least_s=7) == 7


def test_a_change_ends_the_backoff(queue):
    queue.add_failed(A)
    queue.add(A)
    assert queue.take() == A


async def test_waiting_workers_get_each_key_once():
    loop = asyncio.get_running_loop()
    queue = WorkQueue(clock=loop.time, spread=lambda: 0.0)
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.add(A)
    queue.add_after(B, 0.01)
    queue.add(C)
    assert {await worker for worker in workers} == {A, B, C}


async def test_a_closed_queue_lets_its_workers_go(queue):
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.close()
    queue.add(A)
    assert await worker is None
    assert await queue.get() is None


class QueueMachine(RuleBasedStateMachine):
    """Adds, takes and ends in any order; a model says by when each key must have been taken."""

    def __init__(self):
        super().__init__()
        self.clock = Clock()
        self.queue = WorkQueue(clock=self.clock, spread=lambda: 0.0)
        self.owed_by_s = {}
        self.working = set()

    def owe(self, key, by_s):
        self.owed_by_s[key] = min(by_s, self.owed_by_s.get(key, by_s))

    @rule(key=st.sampled_from([A, B, C]))
    def add(self, key):
        self.queue.add(key)
        self.owe(key, self.clock.now_s)

    @rule(key=st.sampled_from([A, B, C]), delay_s=st.floats(0, 600))
    def add_after(self, key, delay_s):
        self.queue.add_after(key, delay_s)
        self.owe(key, self.clock.now_s + delay_s)

    @rule(seconds=st.floats(0, 600))
    def wait(self, seconds):
        self.clock.now_s += seconds

    @rule()
    def take(self):
        key = self.queue.take()
        due = {k for k, by_s in self.owed_by_s.items() if by_s <= self.clock.now_s} - self.working
        if key is None:
            assert not due, "a key that is due and free was not handed out"
            return
        assert key in due, "a key was handed out early, twice, or without being added"
        self.working.add(key)
        del self.owed_by_s[key]

    @precondition(lambda self: self.working)
    @rule(data=st.data(), failed=st.booleans())
    def done(self, data, failed):
        key = data.draw(st.sampled_from(sorted(self.working)))
        if failed:
            self.owe(key, self.clock.now_s + self.queue.add_failed(key))
        else:
            self.queue.succeeded(key)
        self.queue.done(key)
        self.working.remove(key)

    @invariant()
    def counts_agree(self):
        assert self.queue.working == len(self.working)

    def teardown(self):
        for key in sorted(self.working):
            self.queue.done(key)
        self.clock.now_s += 1_000
        left = set()
        while (key := self.queue.take()) is not None:
            left.add(key)
            self.queue.done(key)
        assert left == set(self.owed_by_s), "a key was lost"


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=60, stateful_step_count=40)
