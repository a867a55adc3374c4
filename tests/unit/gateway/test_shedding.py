import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gateway.waiters import Queue, Waiter, an_instance

from stoker.gateway.instances import Evidence
from stoker.gateway.shedding import Pace, Shedding


class Departures:
    """Departures from slots whose number may change."""

    def __init__(self, slots):
        self.slots = slots
        self.pace = Pace(lambda now_s: self.slots)

    def at(self, *times_s):
        for now_s in times_s:
            self.pace.left(now_s)


def test_a_turn_is_as_many_departures_as_there_are_slots():
    departures = Departures(20)
    departures.at(*range(20))
    assert departures.pace.each_s(19.0) is None
    departures.at(20.0)
    assert departures.pace.each_s(20.0) == 1.0


def test_a_turn_has_at_least_16_departures():
    departures = Departures(2)
    departures.at(*range(16))
    assert departures.pace.each_s(15.0) is None
    departures.at(16.0)
    assert departures.pace.each_s(16.0) == 1.0


def test_requests_that_end_together_do_not_look_like_a_standstill():
    departures = Departures(16)
    departures.at(*[10.0] * 16, *[60.0] * 16)
    assert departures.pace.each_s(60.0) == departures.pace.each_s(109.0) == 50 / 16


def test_the_worked_example_of_a_turn_that_is_overdue():
    departures = Departures(16)
    departures.at(*(i / 2 for i in range(17)))
    assert departures.pace.each_s(10.0) == 0.5
    assert departures.pace.each_s(20.0) == 0.75


def test_a_faster_turn_counts_when_it_is_whole():
    departures = Departures(16)
    departures.at(*range(17))
    departures.at(*(16 + i / 4 for i in range(1, 17)))
    assert departures.pace.each_s(20.0) == 0.25


@pytest.mark.parametrize(
    ("slots", "known"),
    [
        pytest.param(17, False, id="more slots: what was seen says nothing"),
        pytest.param(16, True, id="as many"),
        pytest.param(8, True, id="fewer: it can only be slower than that"),
    ],
)
def test_the_pace_is_known_until_slots_are_added(slots, known):
    departures = Departures(16)
    departures.at(*range(17))
    departures.slots = slots
    assert (departures.pace.each_s(17.0) is not None) == known


def test_slots_that_come_back_are_new_slots():
    departures = Departures(16)
    departures.at(*range(17))
    departures.slots = 8
    departures.pace.each_s(60.0)
    departures.slots = 16
    assert departures.pace.each_s(61.0) is None
    departures.at(*range(62, 79))
    assert departures.pace.each_s(79.0) == 1.0


def test_a_turn_in_which_slots_were_added_does_not_count():
    departures = Departures(16)
    departures.at(*range(10))
    departures.slots = 18
    departures.at(*range(10, 17))
    assert departures.pace.each_s(17.0) is None
    departures.at(*range(17, 35))
    assert departures.pace.each_s(35.0) == 1.0


def refuses(shedding, *, ahead, past_half=0, queued=None, each_s=0.5):
    queued = ahead if queued is None else queued
    return shedding.refuses(ahead=ahead, past_half=past_half, queued=queued, each_s=each_s, max_wait_s=30.0)


@pytest.mark.parametrize(
    ("ahead", "past_half", "refused"),
    [
        pytest.param(59, 0, False, id="the 60th departure comes just in time"),
        pytest.param(60, 0, True, id="the 61st comes too late"),
        pytest.param(60, 30, True, id="30 that stay and it need longer than half of the bound"),
        pytest.param(60, 31, False, id="half of the bound, if those before it give up"),
        pytest.param(0, 0, False, id="nobody is before it"),
    ],
)
def test_the_worked_example_of_who_is_refused(ahead, past_half, refused):
    assert refuses(Shedding(), ahead=ahead, past_half=past_half) == refused


def test_once_refused_it_takes_a_shorter_queue_to_be_let_in():
    shedding = Shedding()
    said = [refuses(shedding, ahead=ahead) for ahead in (58, 60, 58, 54, 53, 54, 59, 60)]
    assert said == [False, True, True, True, False, False, False, True]


def test_one_with_few_before_it_is_let_in_and_does_not_end_the_refusals_of_others():
    shedding = Shedding()
    said = [refuses(shedding, ahead=ahead, queued=60) for ahead in (60, 2, 58)]
    assert said == [True, False, True]


class Client(Waiter):
    def __init__(self, world, **fields):
        super().__init__(**fields)
        self.world = world
        self.arrived_s = world.now_s
        self.started_s = None

    def start(self, instance):
        self.now_s = self.started_s = self.world.now_s
        self.world.running.append(self)
        super().start(instance)

    def refuse(self, rejection):
        super().refuse(rejection)
        if self.code == "queue_too_slow":
            self.world.refused(self)


class World:
    """A service from which a request departs every `each_s`; time goes by in halves of it."""

    def __init__(self, *, each_s, max_wait_s, slots=2, max_requests=100_000):
        self.each_s = each_s
        self.now_s = 1000.0
        self.running = []
        self.clients = []
        self.halves = 0
        self.queue = Queue(an_instance(limit=slots), max_requests=max_requests, max_wait_s=max_wait_s)

    def offer(self, count=1, **fields):
        clients = [Client(self, **fields) for _ in range(count)]
        self.clients += clients
        for client in clients:
            self.queue.offer(client, self.now_s)
        return clients

    def refused(self, client):
        assert not any(i.is_open(self.now_s) for i in self.queue.router.instances)

    def half(self):
        self.now_s += self.each_s / 2
        self.halves += 1
        if self.halves % 2 == 0 and self.running:
            self.depart()
        self.queue.expire(self.now_s)

    def depart(self):
        self.queue.release(self.running.pop(0), self.now_s)

    def warm(self):
        """Until the pace is known, with three that wait."""
        self.offer(5)
        for _ in range(40):
            self.half()
            self.offer(3 - self.queue.queued)

    def codes(self):
        return {c.code for c in self.clients if c.started_s is None}

    def would_start_s(self):
        """When one that comes now and is not refused starts, if nobody comes after it."""
        start_s = self.now_s + self.each_s * (1 - self.halves % 2 / 2)
        for waiter in self.queue._waiting:
            if waiter.deadline_s >= start_s:
                start_s += self.each_s
        return start_s


BURSTS = st.lists(st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 60)), min_size=1, max_size=12).map(
    lambda bursts: list(itertools.islice(itertools.cycle(bursts), 120))
)
EACH_S = st.sampled_from([0.25, 0.5, 1.0])
MAX_WAIT_S = st.sampled_from([4.0, 10.0, 15.0])


@given(EACH_S, MAX_WAIT_S, BURSTS)
@settings(max_examples=60, deadline=None)
def test_under_a_constant_pace_whoever_is_let_in_starts_in_time(each_s, max_wait_s, bursts):
    world = World(each_s=each_s, max_wait_s=max_wait_s)
    world.warm()
    for count in bursts:
        # A departure that nobody waits for ends what is known about the pace.
        world.offer(count or not world.queue.queued)
        world.half()
    while world.queue.queued:
        world.half()
    assert world.codes() <= {"queue_too_slow"}


@given(EACH_S, MAX_WAIT_S, st.integers(0, 150), BURSTS)
@settings(max_examples=60, deadline=None)
def test_nobody_is_refused_who_would_have_started_within_half_of_the_bound(
    each_s, max_wait_s, at_first, bursts
):
    """Also while many wait in vain that came before the pace was known; to within one departure."""

    def refused(client):
        World.refused(world, client)
        assert world.would_start_s() - world.now_s > max_wait_s / 2 - each_s

    world = World(each_s=each_s, max_wait_s=max_wait_s)
    world.refused = refused
    world.offer(at_first)
    for count in bursts:
        world.offer(count)
        world.half()


EVENTS = st.lists(
    st.sampled_from(["flood", "flood", "half", "half", "fail", "comes", "goes", "pause"]), max_size=60
)


@given(EVENTS)
@settings(max_examples=60, deadline=None)
def test_nobody_is_refused_while_a_slot_is_free_whatever_happens_to_the_instances(events):
    world = World(each_s=0.5, max_wait_s=4.0)
    world.warm()
    for event in events:
        instances = world.queue.router.instances
        if event == "flood":
            world.offer(20)
        elif event == "half":
            world.half()
        elif event == "fail" and world.running:
            failed = world.running.pop(0)
            failed.release(Evidence.FAILED, world.now_s)
            world.queue.finished(world.now_s)
        elif event == "comes":
            new = an_instance(f"i{len(instances)}", limit=4, ready_since_s=world.now_s)
            world.queue.set(*instances, new, now_s=world.now_s)
        elif event == "goes" and len(instances) > 1:
            world.queue.set(*instances[1:], now_s=world.now_s)
        elif event == "pause":
            world.now_s += 3.0


def test_a_flood_is_refused_with_429_as_soon_as_it_would_wait_in_vain():
    world = World(each_s=0.5, max_wait_s=30.0)
    world.warm()
    clients = world.offer(100)
    assert [c.code for c in clients] == [None] * 57 + ["queue_too_slow"] * 43
    rejection = clients[-1].outcomes[0]
    assert (rejection.status, rejection.retry_after_s) == (429, pytest.approx(30.0, rel=0.1))
    assert "More requests wait for demo/chat before this one than can start within 30 s" in rejection.message


def test_the_order_counts_and_not_how_many_wait():
    world = World(each_s=0.5, max_wait_s=30.0)
    world.warm()
    assert world.offer(100)[-1].code == "queue_too_slow"
    (urgent,) = world.offer(priority=1)
    (other,) = world.offer(workload="other")
    assert urgent.waits
    assert other.waits
    assert world.offer()[0].code == "queue_too_slow"


def test_all_wait_in_a_queue_whose_pace_is_not_known():
    world = World(each_s=0.5, max_wait_s=30.0)
    world.offer(200)
    for _ in range(20):
        world.half()
    assert world.codes() == {None}


def test_a_pace_without_a_queue_says_nothing_as_slots_were_free():
    """One request every 10 s departs, but a hundred at once would be served in no time."""
    world = World(each_s=10.0, max_wait_s=30.0)
    for _ in range(40):
        world.offer()
        world.half()
        world.half()
    world.offer(100)
    assert world.codes() == {None}


def test_a_pace_from_before_a_pause_says_nothing():
    world = World(each_s=0.5, max_wait_s=30.0)
    world.warm()
    while world.running:
        world.half()
    world.now_s += 1000.0
    world.offer(100)
    assert world.codes() == {None}


def test_a_retry_that_waits_for_another_instance_has_nobody_refused_for_whom_there_is_room():
    world = World(each_s=20.0, max_wait_s=30.0, slots=1)
    (first,) = world.queue.router.instances
    world.queue.set(first, an_instance("b", limit=1), now_s=world.now_s)
    for _ in range(40):
        world.offer(2 - world.queue.queued)
        world.half()
    failed = next(c for c in world.running if c.instance is first)
    world.running.remove(failed)
    failed.release(Evidence.FAILED, world.now_s)
    failed.excluded.append(first)
    failed.outcomes.clear()
    failed.deadline_s = world.now_s + 30.0
    assert world.queue.requeue(failed, world.now_s)
    world.queue.finished(world.now_s)
    while first.in_flight:
        done = next(c for c in world.running if c.instance is first)
        world.running.remove(done)
        world.queue.release(done, world.now_s)
    assert world.queue.queued == 1
    assert world.queue._pace.each_s(world.now_s) == 20.0
    assert world.offer()[0].instance is first


@pytest.mark.parametrize(
    ("next_in_s", "refused"),
    [
        pytest.param(20.0, False, id="one is expected in time"),
        pytest.param(None, False, id="one starts, nobody knows how long"),
        pytest.param(40.0, True, id="one is expected too late"),
    ],
)
def test_nobody_is_refused_while_an_instance_is_to_come_in_time(next_in_s, refused):
    world = World(each_s=0.5, max_wait_s=30.0)
    world.warm()
    world.queue.starting = True
    world.queue.next_instance_at_s = None if next_in_s is None else world.now_s + next_in_s
    assert (world.offer(100)[-1].code == "queue_too_slow") == refused


def test_nobody_is_refused_when_an_instance_just_came():
    world = World(each_s=0.5, max_wait_s=30.0)
    world.warm()
    new = an_instance("b", limit=4, ready_since_s=world.now_s)
    world.queue.set(*world.queue.router.instances, new, now_s=world.now_s)
    assert world.offer(200)[-1].waits


def test_a_standstill_makes_the_wait_longer():
    world = World(each_s=0.5, max_wait_s=30.0)
    world.warm()
    world.now_s += 40.0
    world.queue.expire(world.now_s)
    # 41.5 s for less than 16 departures are 2.6 s for each.
    assert [c.code for c in world.offer(20)] == [None] * 11 + ["queue_too_slow"] * 9


def test_a_flood_keeps_the_slots_busy_and_the_refusals_do_not_flap():
    world = World(each_s=0.5, max_wait_s=30.0)
    world.warm()
    world.offer(100)
    refused = []
    for _ in range(600):
        refused += [c.code is not None for c in world.offer(2)]
        world.half()
        assert world.queue.queued >= 50
    changes = sum(a != b for a, b in itertools.pairwise(refused))
    assert 0 < changes < 100
