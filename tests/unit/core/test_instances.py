import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.core.simulator import DIGEST, a_report

from stoker.core.diagnose import diagnose
from stoker.core.instances import instance_records, starting_summary, weights_by_revision

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
REVISION = "chat-5f3a9c01"
RUNNING = {"state": {"running": {}}}


def a_pod(name="chat-1", *, ready=False, scheduled=True, revision=REVISION, metadata=None, **status):
    conditions = [
        {"type": "PodScheduled", "status": str(scheduled), "message": "no node fits"},
        {"type": "Ready", "status": str(ready)},
    ]
    labels = {"serving.stoker.dev/revision": revision} if revision else {}
    return {
        "metadata": {"name": name, "labels": labels, **(metadata or {})},
        "spec": {"nodeName": "node-1"} if scheduled else {},
        "status": {"phase": "Running", "conditions": conditions, **status},
    }


def fetched(**words):
    ended = {"terminated": {"exitCode": 0, "message": json.dumps(words)}}
    return [{"name": "weights", "ready": True, "state": ended}]


def container(name="engine", **status):
    return [{"name": name, "ready": False, "restartCount": 0, **status}]


def records(*pods, reports=None, before=(), now=NOW):
    diagnosis = diagnose(pods=pods, deployments=[])
    return instance_records(pods=pods, reports=reports or {}, diagnosis=diagnosis, before=before, now=now)


@pytest.mark.parametrize(
    ("pod", "stage", "state"),
    [
        pytest.param({"metadata": a_pod()["metadata"]}, None, "Scheduling", id="made this moment"),
        pytest.param(a_pod(scheduled=False), None, "Scheduling", id="no node yet"),
        pytest.param(a_pod(), None, "PullingImage", id="on a node, nothing runs yet"),
        pytest.param(
            a_pod(initContainerStatuses=container("weights", **RUNNING)), None, "Weights", id="it fetches"
        ),
        pytest.param(
            a_pod(initContainerStatuses=fetched(digest=DIGEST), containerStatuses=container()),
            None,
            "PullingImage",
            id="between the two containers",
        ),
        pytest.param(
            a_pod(containerStatuses=container(**RUNNING)), None, "Starting", id="it has not said yet"
        ),
        pytest.param(a_pod(containerStatuses=container(**RUNNING)), "Loading", "Loading", id="it loads"),
        pytest.param(
            a_pod(containerStatuses=container(**RUNNING)), "WarmingUp", "WarmingUp", id="it warms up"
        ),
        pytest.param(
            a_pod(containerStatuses=container(**RUNNING)),
            "Serving",
            "Starting",
            id="not Ready for Kubernetes yet",
        ),
        pytest.param(
            a_pod(containerStatuses=container(**RUNNING)), "Nonsense", "Starting", id="an unknown stage"
        ),
        pytest.param(a_pod(ready=True), "Serving", "Serving", id="it serves"),
        pytest.param(
            a_pod(containerStatuses=container(state={"terminated": {"exitCode": 1}})),
            None,
            "Failed",
            id="it crashed",
        ),
        pytest.param(a_pod(phase="Succeeded"), None, "Failed", id="it ended and does not come back"),
        pytest.param(
            a_pod(ready=True, metadata={"deletionTimestamp": "x"}), "Serving", "Draining", id="it leaves"
        ),
    ],
)
def test_an_instance_is(pod, stage, state):
    name = pod["metadata"]["name"]
    pod["metadata"].setdefault("labels", {"serving.stoker.dev/revision": REVISION})
    reports = {name: a_report(REVISION, stage=stage)} if stage else {}
    (record,) = records(pod, reports=reports)
    assert (record["name"], record["revision"], record["state"]) == (name, REVISION, state)


def test_a_record_names_the_node_the_version_and_what_holds_it_up():
    (record,) = records(
        a_pod(
            initContainerStatuses=fetched(digest=DIGEST, modelVersion="a09a354"),
            containerStatuses=container(state={"terminated": {"exitCode": 1, "message": "boom"}}),
        )
    )
    assert record["node"] == "node-1"
    assert record["modelVersion"] == "a09a354"
    assert record["message"].startswith(
        "chat-1 on node-1: EngineCrashed: container engine ended with exit code 1: boom"
    )


def test_the_time_is_that_of_the_state_and_not_of_the_look():
    later = NOW + timedelta(minutes=5)
    first = records(a_pod())
    assert first[0]["since"] == "2026-12-01T08:00:00Z"
    assert records(a_pod(), before=first, now=later) == first
    (served,) = records(a_pod(ready=True), before=first, now=later)
    assert served["since"] == "2026-12-01T08:05:00Z"
    (forgotten,) = records(a_pod(), before=[{"name": "chat-1", "state": "PullingImage"}], now=later)
    assert forgotten["since"] == "2026-12-01T08:05:00Z"


def test_instances_are_in_the_order_of_their_names_and_strangers_left_out():
    pods = [a_pod("chat-2"), a_pod("chat-1"), a_pod("stranger", revision=None)]
    assert [record["name"] for record in records(*pods)] == ["chat-1", "chat-2"]


def test_a_summary_counts_those_that_are_on_their_way():
    pods = [
        a_pod("a", ready=True),
        a_pod("b"),
        a_pod("c"),
        a_pod("d", containerStatuses=container(**RUNNING)),
    ]
    assert starting_summary(records(*pods)) == "2 PullingImage, 1 Starting"
    assert starting_summary(records(pods[0])) == ""


def test_weights_are_those_of_ready_instances_first_and_in_their_own_words():
    ready = a_pod("a", ready=True)
    starting = a_pod("b", initContainerStatuses=fetched(digest="sha256:00", modelVersion="old"))
    weights = weights_by_revision([ready, starting], {"a": a_report(REVISION)})
    assert weights == {REVISION: {"modelRevision": "a09a354", "weightsDigest": DIGEST}}
    assert weights_by_revision([starting], {}) == {
        REVISION: {"modelRevision": "old", "weightsDigest": "sha256:00"}
    }
    assert weights_by_revision([a_pod("stranger", revision=None)], {}) == {}


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(
            container("weights", state={"terminated": {"exitCode": 1, "message": "{}"}}), id="it failed"
        ),
        pytest.param(container("weights", state={"terminated": {"exitCode": 0}}), id="it left no word"),
        pytest.param(fetched(modelVersion="x"), id="it left no digest"),
        pytest.param(
            container("istio-init", state={"terminated": {"exitCode": 0}}), id="somebody else's container"
        ),
        pytest.param(container("weights", **RUNNING), id="it is not done"),
    ],
)
def test_no_weights_are_told_of_when(status):
    assert weights_by_revision([a_pod(initContainerStatuses=status)], {}) == {REVISION: {}}


def test_a_version_is_cut_to_what_a_status_can_hold():
    report = a_report(REVISION, model_version="x" * 1000)
    weights = weights_by_revision([a_pod(ready=True)], {"chat-1": report})
    assert weights[REVISION]["modelRevision"] == "x" * 256


def test_weights_without_a_version_are_known_by_their_digest():
    pod = a_pod(initContainerStatuses=fetched(digest=DIGEST))
    assert weights_by_revision([pod], {}) == {REVISION: {"weightsDigest": DIGEST}}
