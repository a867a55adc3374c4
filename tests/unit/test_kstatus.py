"""The port of kstatus answers as the library does, for each state an `InferenceService` can be in."""

import pytest
from tests.kstatus import CURRENT, FAILED, IN_PROGRESS, TERMINATING, Result, kstatus


def service(*conditions, generation=2, observed=2, **metadata):
    status = {"observedGeneration": observed, "conditions": list(conditions)}
    return {
        "kind": "InferenceService",
        "metadata": {"name": "chat", "generation": generation, **metadata},
        "status": status,
    }


def condition(type_, status, message=""):
    return {"type": type_, "status": status, "reason": "Any", "message": message}


READY = condition("Ready", "True")
SCALED_TO_ZERO = {**READY, "reason": "ScaledToZero"}
NOT_READY = condition("Ready", "False", "0 of 2 instances are ready")
UNKNOWN = condition("Ready", "Unknown", "not looked at yet")
RECONCILING = condition("Reconciling", "True", "loading weights")
NOT_RECONCILING = condition("Reconciling", "False", "done")
STALLED = condition("Stalled", "True", "the weights were not found")


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(service(READY), Result(CURRENT, "Resource is Ready"), id="ready"),
        pytest.param(
            service(SCALED_TO_ZERO), Result(CURRENT, "Resource is Ready"), id="scaled to zero on purpose"
        ),
        pytest.param(
            service(NOT_READY, RECONCILING),
            Result(IN_PROGRESS, "loading weights"),
            id="reconciling says what it waits for",
        ),
        pytest.param(
            service(READY, RECONCILING),
            Result(IN_PROGRESS, "loading weights"),
            id="serving the last revision while the next one starts is not done yet",
        ),
        pytest.param(
            service(NOT_READY, STALLED),
            Result(FAILED, "the weights were not found"),
            id="stalled is failed, not in progress",
        ),
        pytest.param(
            service(READY, STALLED),
            Result(FAILED, "the weights were not found"),
            id="a bad edit is failed though the last good revision serves",
        ),
        pytest.param(
            service(RECONCILING, STALLED),
            Result(IN_PROGRESS, "loading weights"),
            id="of reconciling and stalled the first in the list wins",
        ),
        pytest.param(
            service(READY, NOT_RECONCILING),
            Result(CURRENT, "Resource is Ready"),
            id="a condition that is False says nothing",
        ),
        pytest.param(
            service(NOT_READY),
            Result(IN_PROGRESS, "0 of 2 instances are ready"),
            id="not ready alone is in progress for ever",
        ),
        pytest.param(service(UNKNOWN), Result(IN_PROGRESS, "not looked at yet"), id="ready unknown"),
        pytest.param(
            service(READY, generation=3),
            Result(IN_PROGRESS, "InferenceService generation is 3, but latest observed generation is 2"),
            id="an edit nobody looked at yet wins over every condition",
        ),
        pytest.param(
            service(generation=1, observed=-1),
            Result(IN_PROGRESS, "InferenceService generation is 1, but latest observed generation is -1"),
            id="a fresh object whose status is defaulted to generation -1",
        ),
        pytest.param(
            {"kind": "InferenceService", "metadata": {"generation": 1}},
            Result(CURRENT, "Resource is current"),
            id="a fresh object without any status passes for done",
        ),
        pytest.param(
            service(READY, generation=3, deletionTimestamp="2026-12-01T12:00:00Z"),
            Result(TERMINATING, "Resource scheduled for deletion"),
            id="deleting wins over everything",
        ),
    ],
)
def test_judges_as_the_library_does(obj, expected):
    assert kstatus(obj) == expected
