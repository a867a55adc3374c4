from datetime import UTC, datetime

import pytest
from tests.kstatus import FAILED, IN_PROGRESS, kstatus

from stoker.controller.failure import failure_event, with_failure
from stoker.kube.errors import ConflictError, InvalidError, RetryError

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
QUOTA = InvalidError("applying Deployment demo/chat-5f3a9c01", "exceeded quota: gpus")
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Serving",
    "message": "1 of 1 Ready",
    "observedGeneration": 3,
    "lastTransitionTime": "2026-12-01T11:00:00Z",
}


def service(*conditions):
    return {
        "apiVersion": "serving.stoker.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"namespace": "demo", "name": "chat", "generation": 3},
        "status": {"conditions": list(conditions)},
    }


def planned(*conditions):
    return {"observedGeneration": 3, "conditions": list(conditions)}


@pytest.mark.parametrize(
    ("error", "type_", "verdict"),
    [
        pytest.param(QUOTA, "Stalled", FAILED, id="what was refused needs a person"),
        pytest.param(
            RetryError("applying", "overload"), "Reconciling", IN_PROGRESS, id="overload needs time"
        ),
        pytest.param(
            ConflictError("applying", "changed"), "Reconciling", IN_PROGRESS, id="so does a conflict"
        ),
    ],
)
def test_says_what_failed_and_who_has_to_act(error, type_, verdict):
    status = with_failure(planned(READY), error, service=service(), now=NOW)
    told = status["conditions"][-1]
    assert (told["type"], told["status"], told["reason"]) == (type_, "True", "ApplyFailed")
    assert told["message"] == str(error)
    assert kstatus(service() | {"status": status}).status == verdict


def test_leaves_ready_alone_as_what_serves_goes_on():
    status = with_failure(planned(READY), QUOTA, service=service(READY), now=NOW)
    assert status["conditions"][0] == READY


def test_replaces_what_the_plan_hoped_for():
    hopeful = {"type": "Reconciling", "status": "True", "reason": "RollingOut"}
    status = with_failure(planned(READY, hopeful), QUOTA, service=service(), now=NOW)
    assert [c["type"] for c in status["conditions"]] == ["Ready", "Stalled"]


def test_failing_again_in_the_same_way_changes_nothing():
    first = with_failure(planned(READY), QUOTA, service=service(READY), now=NOW)
    later = NOW.replace(hour=13)
    again = with_failure(planned(READY), QUOTA, service=service() | {"status": first}, now=later)
    assert again == first


def test_an_event_tells_of_it():
    assert failure_event(QUOTA).message == "applying Deployment demo/chat-5f3a9c01: exceeded quota: gpus"
