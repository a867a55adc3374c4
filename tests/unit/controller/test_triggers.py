import copy

import pytest
from tests.unit.clock import Clock

from stoker.api.names import SERVICE_LABEL, child_name
from stoker.controller.queue import WorkQueue
from stoker.controller.triggers import Triggers


def service(name="chat", **metadata):
    identity = {"namespace": "demo", "name": name, "uid": f"uid-{name}", "generation": 1}
    return {"kind": "InferenceService", "metadata": identity | metadata, "status": {}}


def pod(service_name, namespace="demo"):
    labels = {SERVICE_LABEL: child_name(service_name)}
    return {"kind": "Pod", "metadata": {"namespace": namespace, "name": "p", "labels": labels}}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def queue(clock):
    return WorkQueue(clock=clock, spread=lambda: 0.0)


@pytest.fixture
def triggers(queue):
    return Triggers(queue)


def taken(queue):
    keys = []
    while (key := queue.take()) is not None:
        queue.done(key)
        keys.append(str(key))
    return keys


@pytest.mark.parametrize("event_type", [None, "ADDED", "MODIFIED"])
def test_a_new_service_is_looked_at_however_it_is_noticed(triggers, queue, event_type):
    triggers.service(event_type, service())
    assert taken(queue) == ["demo/chat"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"generation": 2}, ["demo/chat"], id="a new spec is looked at"),
        pytest.param({"labels": {"a": "b"}}, ["demo/chat"], id="a new label is looked at"),
        pytest.param({"annotations": {"a": "b"}}, ["demo/chat"], id="a new annotation is looked at"),
        pytest.param({"deletionTimestamp": "now"}, ["demo/chat"], id="a deletion is looked at"),
        pytest.param({"uid": "other"}, ["demo/chat"], id="a service made anew is looked at"),
        pytest.param({"resourceVersion": "2", "managedFields": []}, [], id="a status write is not"),
    ],
)
def test_a_changed_service_is_looked_at_unless_only_its_status_changed(triggers, queue, change, expected):
    triggers.service("ADDED", service())
    taken(queue)
    changed = copy.deepcopy(service())
    changed["metadata"] |= change
    changed["status"] = {"replicas": 1}
    triggers.service("MODIFIED", changed)
    assert taken(queue) == expected


def test_a_child_leads_to_its_service_even_if_the_name_was_shortened(triggers, queue, clock):
    name = "llama-3.1-8b"
    triggers.service(None, service(name))
    taken(queue)
    triggers.child(pod(name))
    clock.now_s = 0.1
    assert taken(queue) == [f"demo/{name}"]


def test_the_many_events_of_one_change_of_children_are_one_look(triggers, queue, clock):
    triggers.service(None, service())
    taken(queue)
    for _ in range(5):
        triggers.child(pod("chat"))
        clock.now_s += 0.01
    assert taken(queue) == []
    clock.now_s = 0.1
    assert taken(queue) == ["demo/chat"]
    clock.now_s = 10
    assert taken(queue) == []


def test_a_child_of_nobody_or_of_another_namespace_is_ignored(triggers, queue, clock):
    triggers.service(None, service())
    taken(queue)
    triggers.child(pod("chat", namespace="other"))
    triggers.child(pod("unknown"))
    triggers.child({"kind": "Pod", "metadata": {"namespace": "demo", "name": "p"}})
    clock.now_s = 10
    assert taken(queue) == []


def test_a_deleted_service_is_looked_at_once_more_and_forgotten(triggers, queue, clock):
    triggers.service("ADDED", service())
    triggers.service("DELETED", service())
    assert taken(queue) == ["demo/chat"]
    triggers.child(pod("chat"))
    clock.now_s = 10
    assert taken(queue) == []
    triggers.service("ADDED", service())
    assert taken(queue) == ["demo/chat"]


def test_knows_what_a_list_shows_and_the_watch_has_not(triggers):
    triggers.service(None, service("a"))
    triggers.service(None, service("b"))
    listed = [service("a"), service("b", generation=2), service("c")]
    assert triggers.unseen(listed) == {("uid-b", 2), ("uid-c", 1)}
