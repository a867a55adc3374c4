from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.core.simulator import DIGEST, a_report

from stoker.core.history import revision_records, revision_states, serving_revision
from stoker.core.rollout import RevisionState, decide

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


def a_deployment(name="a", *, replicas=2, **status):
    return {
        "metadata": {"name": name, "generation": 3, "creationTimestamp": "2026-12-01T08:00:00Z"},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 3, "replicas": replicas} | status,
    }


def a_pod(name, revision, *, ready=True):
    return {
        "metadata": {"name": name, "labels": {"serving.stoker.dev/revision": revision}},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def states(*, deployments=(), pods=(), reports=None, records=(), sha256=None):
    return revision_states(
        deployments=deployments, pods=pods, reports=reports or {}, records=records, sha256=sha256
    )


@pytest.mark.parametrize(
    ("report", "sha256", "verified", "mismatch"),
    [
        pytest.param(a_report("a"), None, 1, None, id="it says it is the revision"),
        pytest.param(a_report("a"), "ab" * 32, 1, None, id="and has the digest that the spec asks for"),
        pytest.param(None, None, 0, None, id="it has not said yet"),
        pytest.param(
            a_report("b"), None, 0, "pod a-0 says that it is b and not a", id="it says it is another revision"
        ),
        pytest.param(
            a_report(""), None, 0, "pod a-0 says that it is no revision and not a", id="it says it is none"
        ),
        pytest.param(
            a_report("a"),
            "00" * 32,
            0,
            f"pod a-0 serves weights {DIGEST} and not sha256:{'00' * 32}",
            id="it has other weights",
        ),
        pytest.param(
            a_report("a", weights_digest=""),
            "00" * 32,
            0,
            f"pod a-0 serves weights without a digest and not sha256:{'00' * 32}",
            id="it does not know its weights",
        ),
    ],
)
def test_a_ready_instance_is_verified_when(report, sha256, verified, mismatch):
    (state,) = states(
        deployments=[a_deployment()],
        pods=[a_pod("a-0", "a")],
        reports={"a-0": report} if report else {},
        sha256=sha256,
    )
    assert (state.ready, state.verified) == (1, verified)
    assert state.mismatches == ((mismatch,) if mismatch else ())


@pytest.mark.parametrize(
    ("status", "available"),
    [
        pytest.param({"availableReplicas": 2, "updatedReplicas": 2}, 2, id="all of the present template"),
        pytest.param({"availableReplicas": 2, "updatedReplicas": 1}, 1, id="one is of an earlier template"),
        pytest.param(
            {"availableReplicas": 2, "updatedReplicas": 2, "observedGeneration": 2},
            0,
            id="the controller lags",
        ),
        pytest.param({}, 0, id="nothing said yet"),
    ],
)
def test_available_instances_are_those_of_the_present_template(status, available):
    (state,) = states(deployments=[a_deployment(**status)])
    assert (state.size, state.available) == (2, available)


def test_a_revision_is_seen_by_its_ready_pods_even_without_its_deployment():
    pods = [a_pod("a-0", "a"), a_pod("b-0", "b", ready=False), {"metadata": {"name": "stranger"}}]
    (state,) = states(pods=pods)
    assert (state.name, state.size, state.ready, state.available) == ("a", 0, 1, 0)


@pytest.mark.parametrize(("phase", "served"), [("Serving", True), ("Previous", True), ("Candidate", False)])
def test_status_remembers_which_revision_has_served(phase, served):
    (state,) = states(deployments=[a_deployment()], records=[{"name": "a", "phase": phase}])
    assert state.has_served is served


def a_state(name, *, ready=1):
    return RevisionState(name=name, size=1, ready=ready, available=ready, verified=ready)


@pytest.mark.parametrize(
    ("records", "selected", "there", "serving"),
    [
        pytest.param(
            [{"name": "b", "phase": "Candidate"}, {"name": "a", "phase": "Serving"}],
            "b",
            [a_state("a"), a_state("b")],
            "a",
            id="what is remembered, whatever somebody made the Service select",
        ),
        pytest.param(
            [], "b", [a_state("a"), a_state("b")], "b", id="what the Service selects, with no memory"
        ),
        pytest.param([], "b", [a_state("b", ready=0)], None, id="nothing, while nothing is Ready"),
        pytest.param([], None, [a_state("b")], None, id="nothing, without a Service"),
        pytest.param([{"name": "a", "phase": "Serving"}], "a", [a_state("b")], None, id="not what is gone"),
    ],
)
def test_the_serving_revision_is(records, selected, there, serving):
    assert serving_revision(states=there, records=records, selected=selected) == serving


def records(*, wanted="a", serving=None, deployments=(), pods=(), before=(), limit=5, weights=None, now=NOW):
    found = states(deployments=deployments, pods=pods, records=before)
    decision = decide(
        wanted=wanted, replicas=2, serving=serving, selected=serving, revisions=found, since_switch_s=60.0
    )
    return revision_records(
        decision=decision,
        deployments=deployments,
        pods=pods,
        before=before,
        weights=weights or {},
        limit=limit,
        now=now,
    )


def test_a_candidate_says_what_it_waits_for():
    (record,) = records()
    assert record == {
        "name": "a",
        "phase": "Candidate",
        "created": "2026-12-01T08:00:00Z",
        "replicas": 0,
        "readyReplicas": 0,
        "weight": 0,
        "message": "a is the first revision and has no Ready instance yet",
    }


def test_a_serving_revision_has_all_the_weight_and_states_its_model():
    (record,) = records(
        serving="a",
        deployments=[a_deployment()],
        pods=[a_pod("a-0", "a")],
        weights={"a": {"modelRevision": "a09a354", "weightsDigest": DIGEST}},
    )
    assert record["phase"] == "Serving"
    assert (record["weight"], record["outcome"], record["replicas"], record["readyReplicas"]) == (
        100,
        "Promoted",
        2,
        1,
    )
    assert (record["modelRevision"], record["weightsDigest"]) == ("a09a354", DIGEST)


def test_what_is_gone_is_remembered_newest_first_up_to_the_limit():
    gone = [
        {
            "name": f"old-{hour}",
            "phase": "Retired",
            "created": f"2026-12-01T0{hour}:00:00Z",
            "outcome": "Promoted",
        }
        for hour in range(7)
    ]
    found = records(wanted="a", before=gone, limit=3)
    assert [record["name"] for record in found] == ["a", "old-6", "old-5", "old-4"]
    assert all("replicas" not in record for record in found[1:])


def test_a_candidate_that_leaves_was_superseded_and_one_that_served_was_promoted():
    before = [
        {"name": "b", "phase": "Candidate", "created": "2026-12-01T07:00:00Z"},
        {"name": "a", "phase": "Serving", "outcome": "Promoted", "created": "2026-12-01T06:00:00Z"},
    ]
    deployments = [a_deployment("a"), a_deployment("b")]
    found = {r["name"]: r for r in records(wanted="a", serving="a", deployments=deployments, before=before)}
    assert (found["b"]["phase"], found["b"]["outcome"]) == ("Retired", "Superseded")
    assert (found["a"]["phase"], found["a"]["outcome"]) == ("Serving", "Promoted")


def test_a_revision_that_comes_back_was_made_anew_and_knows_its_weights():
    before = [
        {
            "name": "a",
            "phase": "Retired",
            "outcome": "Promoted",
            "created": "2026-11-01T06:00:00Z",
            "modelRevision": "a09a354",
        }
    ]
    (record,) = records(wanted="a", before=before, now=NOW + timedelta(hours=1))
    assert record["created"] == "2026-12-01T09:00:00Z"
    assert record["modelRevision"] == "a09a354"
    assert "outcome" not in record


def test_the_old_revision_is_previous_while_it_is_still_there():
    before = [{"name": "b", "phase": "Serving"}, {"name": "a", "phase": "Previous"}]
    found = states(deployments=[a_deployment("a"), a_deployment("b")], records=before)
    decision = decide(wanted="b", replicas=2, serving="b", selected="b", revisions=found, since_switch_s=1.0)
    after = revision_records(
        decision=decision,
        deployments=[a_deployment("a"), a_deployment("b")],
        pods=[],
        before=before,
        weights={},
        limit=5,
        now=NOW,
    )
    assert {record["name"]: record["phase"] for record in after} == {"a": "Previous", "b": "Serving"}
