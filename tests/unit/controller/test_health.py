import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.unit.clock import Clock

from stoker.controller.health import Health, WatchCheck
from stoker.controller.queue import Key, WorkQueue
from stoker.controller.triggers import Triggers
from stoker.kube.lease import Lease, LeaseTimes


class NoLease:
    """A store that is never asked: these tests set the Lease's state themselves."""


def service(name, generation=1):
    metadata = {"namespace": "demo", "name": name, "uid": name, "generation": generation}
    return {"kind": "InferenceService", "metadata": metadata}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def queue(clock):
    return WorkQueue(clock=clock, spread=lambda: 0.0)


@pytest.fixture
def triggers(queue):
    return Triggers(queue)


@pytest.fixture
def watch(triggers):
    return WatchCheck(triggers)


@pytest.fixture
def health(queue, watch, clock):
    lease = Lease(
        NoLease(),
        namespace="stoker",
        name="stoker-operator",
        identity="one",
        times=LeaseTimes(),
        clock=clock,
        spread=lambda: 0.0,
    )
    return Health(queue=queue, lease=lease, watch=watch, clock=clock)


def test_a_fresh_operator_is_alive(health):
    assert health.ailments() == []


def test_a_lease_loop_that_stands_still_is_an_ailment(health, clock):
    clock.now_s = 61
    assert health.ailments() == ["The Lease loop has not gone round for 61 s."]


def test_a_worker_that_hangs_is_an_ailment(health, queue, clock):
    queue.add(Key("demo", "chat"))
    queue.take()
    clock.now_s = health.lease.beat_at_s = 301
    assert health.ailments() == ["A worker has been busy with one service for 301 s."]


def test_keys_that_nobody_takes_are_an_ailment_of_the_leader_only(health, queue, clock):
    queue.add(Key("demo", "chat"))
    clock.now_s = health.lease.beat_at_s = 301
    assert health.ailments() == []
    health.lease.held.set()
    assert health.ailments() == ["A service has been waiting for a worker for 301 s."]


def test_synced_once_the_watch_has_shown_what_a_list_shows(watch, triggers):
    watch.listed([service("a"), service("b")], first=True)
    assert not watch.synced
    triggers.service(None, service("a"))
    watch.listed([service("a"), service("b")], first=False)
    assert not watch.synced
    triggers.service(None, service("b"))
    watch.listed([service("a"), service("b"), service("new")], first=False)
    assert watch.synced


def test_nothing_to_show_is_synced_at_once(watch):
    watch.listed([], first=True)
    assert watch.synced


def test_a_watch_that_goes_blind_is_an_ailment_at_the_second_list(health, watch, triggers):
    triggers.service(None, service("a"))
    watch.listed([service("a")], first=True)
    edited = [service("a", generation=2)]
    watch.listed(edited, first=False)
    assert health.ailments() == []
    watch.listed(edited, first=False)
    assert health.ailments() == ["The watch does not show 1 services that exist."]
    triggers.service("MODIFIED", service("a", generation=2))
    watch.listed(edited, first=False)
    assert health.ailments() == []


async def test_the_probes_answer_over_http(health, watch, clock):
    async with TestClient(TestServer(health.application())) as http:
        assert (await http.get("/healthz")).status == 200
        assert (await http.get("/readyz")).status == 503
        watch.listed([], first=True)
        assert (await http.get("/readyz")).status == 200
        clock.now_s = 100
        unhealthy = await http.get("/healthz")
        assert unhealthy.status == 500
        assert "Lease loop" in await unhealthy.text()


async def test_the_metrics_say_how_full_the_queue_is(health, queue, clock):
    queue.add(Key("demo", "chat"))
    clock.now_s = 7
    async with TestClient(TestServer(health.application())) as http:
        text = await (await http.get("/metrics")).text()
    assert "stoker_workqueue_depth 1.0" in text
    assert "stoker_workqueue_oldest_seconds 7.0" in text
