import asyncio
import copy

import pytest
from tests.unit.clock import Clock

from stoker.kube.errors import ConflictError, RetryError
from stoker.kube.lease import LeadershipLostError, Lease, LeaseTimes


class Store:
    """One Lease with the API server's optimistic locking, and an outage on demand."""

    def __init__(self):
        self.lease = None
        self.version = 0
        self.down = False
        self.before_write = lambda: None

    def reachable(self):
        if self.down:
            raise RetryError("reading the Lease", "connection refused")

    async def get(self, resource, *, namespace, name):
        self.reachable()
        return copy.deepcopy(self.lease)

    async def create(self, obj):
        self.reachable()
        self.before_write()
        if self.lease is not None:
            raise ConflictError("creating the Lease", "it exists")
        return self.write(obj)

    async def update(self, obj):
        self.reachable()
        self.before_write()
        if obj["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise ConflictError("updating the Lease", "it changed")
        return self.write(obj)

    def write(self, obj):
        self.version += 1
        self.lease = copy.deepcopy(obj)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return copy.deepcopy(self.lease)

    @property
    def holder(self):
        return self.lease["spec"]["holderIdentity"]


@pytest.fixture
def clock():
    return Clock(100.0)


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def candidate(store, clock):
    def make(identity):
        return Lease(
            store,
            namespace="stoker",
            name="stoker-operator",
            identity=identity,
            times=LeaseTimes(),
            clock=clock,
            spread=lambda: 1.0,
        )

    return make


async def test_the_first_candidate_leads_at_once(candidate, store):
    one = candidate("one")
    assert await one.step() == pytest.approx(2.4)
    assert one.held.is_set()
    assert store.lease["spec"]["leaseDurationSeconds"] == 15
    assert store.lease["spec"]["leaseTransitions"] == 0


async def test_a_second_candidate_waits_while_the_first_renews(candidate, clock):
    one, two = candidate("one"), candidate("two")
    for _ in range(30):
        await one.step()
        await two.step()
        clock.now_s += 2
    assert one.held.is_set()
    assert not two.held.is_set()


async def test_a_dead_leader_is_followed_within_20_seconds(candidate, clock, store):
    one, two = candidate("one"), candidate("two")
    await one.step()
    # Two looks at the earliest and latest moment: the leader renews right after being seen.
    await two.step()
    clock.now_s += 0.1
    await one.step()
    died_at_s = clock.now_s
    while not two.held.is_set():
        clock.now_s += await two.step()
        assert clock.now_s - died_at_s <= 20
    assert store.holder == "two"
    assert store.lease["spec"]["leaseTransitions"] == 1


async def test_a_released_lease_is_taken_at_the_next_look(candidate, store):
    one, two = candidate("one"), candidate("two")
    await one.step()
    await two.step()
    await one.release()
    assert store.holder == ""
    await two.step()
    assert two.held.is_set()
    assert store.holder == "two"


async def test_a_standby_that_stops_leaves_the_leaders_lease_alone(candidate, store):
    one, two = candidate("one"), candidate("two")
    await one.step()
    await two.step()
    await two.release()
    assert store.holder == "one"


async def test_a_leader_that_cannot_renew_gives_up_before_others_may_take_over(candidate, clock, store):
    one = candidate("one")
    await one.step()
    renewed_at_s = clock.now_s
    store.down = True

    async def renew():
        while True:
            clock.now_s += await one.step()

    with pytest.raises(LeadershipLostError, match="could not be renewed"):
        await renew()
    assert 10 <= clock.now_s - renewed_at_s < 15


async def test_a_short_outage_costs_nothing(candidate, clock, store):
    one = candidate("one")
    await one.step()
    store.down = True
    clock.now_s += 4
    await one.step()
    store.down = False
    clock.now_s += 4
    await one.step()
    clock.now_s += 4
    await one.step()
    assert one.held.is_set()


async def test_a_leader_that_sees_another_holder_gives_up_at_once(candidate, clock, store):
    one = candidate("one")
    await one.step()
    store.lease["spec"]["holderIdentity"] = "somebody"
    with pytest.raises(LeadershipLostError, match="taken by somebody"):
        await one.step()


async def test_of_two_that_see_a_free_lease_one_gets_it(candidate, store):
    one, two = candidate("one"), candidate("two")

    def two_is_faster():
        store.before_write = lambda: None
        store.write({"metadata": {}, "spec": {"holderIdentity": "two"}})

    store.before_write = two_is_faster
    await one.step()
    assert not one.held.is_set()
    await two.step()
    assert two.held.is_set()


async def test_holding_ends_when_it_is_cancelled(candidate):
    one = candidate("one")
    task = asyncio.create_task(one.hold())
    async with asyncio.timeout(5):
        await one.held.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
