import pytest
from tests.unit.clock import Clock

from stoker.core.model import Event
from stoker.kube.errors import InvalidError
from stoker.kube.recorder import Recorder

SERVICE = {
    "apiVersion": "serving.stoker.dev/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"namespace": "demo", "name": "chat", "uid": "u1", "resourceVersion": "7"},
}


class Store:
    def __init__(self):
        self.created = []
        self.refuses = False

    async def create(self, obj):
        if self.refuses:
            raise InvalidError("creating Event demo/", "forbidden")
        self.created.append(obj)
        return obj


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def recorder(store, clock):
    return Recorder(store, instance="stoker-0", clock=clock)


def event(message="Two of two instances are Ready."):
    return Event(type="Normal", reason="Serving", message=message)


async def test_an_event_says_what_it_is_about_and_who_says_it(recorder, store):
    await recorder.record(SERVICE, (event(),))
    (posted,) = store.created
    assert posted["regarding"]["name"] == "chat"
    assert posted["regarding"]["uid"] == "u1"
    assert posted["reportingController"] == "serving.stoker.dev/operator"
    assert posted["note"] == "Two of two instances are Ready."


async def test_the_same_event_is_posted_once_in_ten_minutes(recorder, store, clock):
    await recorder.record(SERVICE, (event(), event()))
    clock.now_s = 599
    await recorder.record(SERVICE, (event(),))
    assert len(store.created) == 1
    clock.now_s = 601
    await recorder.record(SERVICE, (event(),))
    assert len(store.created) == 2


async def test_an_object_that_flaps_is_held_back_after_a_burst(recorder, store, clock):
    for number in range(100):
        await recorder.record(SERVICE, (event(f"attempt {number}"),))
    assert len(store.created) == 25
    clock.now_s = 301
    await recorder.record(SERVICE, (event("one more"), event("and another")))
    assert len(store.created) == 26


async def test_one_objects_flapping_does_not_hold_back_another(recorder, store):
    for number in range(30):
        await recorder.record(SERVICE, (event(f"attempt {number}"),))
    other = SERVICE | {"metadata": SERVICE["metadata"] | {"uid": "u2"}}
    await recorder.record(other, (event(),))
    assert store.created[-1]["regarding"]["uid"] == "u2"


async def test_an_event_that_is_refused_does_not_raise(recorder, store):
    store.refuses = True
    await recorder.record(SERVICE, (event(),))
    assert store.created == []


async def test_a_long_message_is_cut_between_characters(recorder, store):
    await recorder.record(SERVICE, (event("ü" * 1000),))
    assert store.created[0]["note"] == "ü" * 512


async def test_what_is_gone_is_forgotten(recorder, store):
    await recorder.record(SERVICE, (event(),))
    recorder.forget(live_uids=set())
    await recorder.record(SERVICE, (event(),))
    assert len(store.created) == 2
