import copy

import pytest

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
def queue():
    return WorkQueue(clock=lambda: 0.0, spread=lambda: 0.0)


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


def test_a_child_leads_to_its_service_even_if_the_name_was_shortened(triggers, queue):
    name = "llama-3.1-8b"
    triggers.service(None, service(name))
    taken(queue)
    triggers.child(pod(name))
    assert taken(queue) == [f"demo/{name}"]


def test_a_child_of_nobody_or_of_another_namespace_is_ignored(triggers, queue):
    triggers.service(None, service())
    taken(queue)
    triggers.child(pod("chat", namespace="other"))
    triggers.child(pod("unknown"))
    triggers.child({"kind": "Pod", "metadata": {"namespace": "demo", "name": "p"}})
    assert taken(queue) == []


def test_a_deleted_service_is_looked_at_once_more_and_forgotten(triggers, queue):
    triggers.service("ADDED", service())
    triggers.service("DELETED", service())
    assert taken(queue) == ["demo/chat"]
    triggers.child(pod("chat"))
    assert taken(queue) == []
    triggers.service("ADDED", service())
    assert taken(queue) == ["demo/chat"]


def test_knows_what_a_list_shows_and_the_watch_has_not(triggers):
    triggers.service(None, service("a"))
    triggers.service(None, service("b"))
    listed = [service("a"), service("b", generation=2), service("c")]
    assert triggers.unseen(listed) == {("uid-b", 2), ("uid-c", 1)}
