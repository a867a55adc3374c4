"""Which revisions does a service have, and what has become of each?

The live Deployments and pods say what is there; `status.revisions` remembers what they cannot say:
which revision has served, when each was made, and those that are gone. Where both speak, what is
live wins, so a status that was lost or edited costs memory and never traffic.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from stoker.api.status import RevisionOutcome, RevisionPhase
from stoker.core import pods as pod_readings
from stoker.core.conditions import timestamp
from stoker.core.model import InstanceReport, JsonObject
from stoker.core.rollout import RevisionState, RolloutDecision

_HAVE_SERVED = frozenset({RevisionPhase.SERVING.value, RevisionPhase.PREVIOUS.value})


def revision_states(
    *,
    deployments: Iterable[JsonObject],
    pods: Iterable[JsonObject],
    reports: Mapping[str, InstanceReport],
    records: Iterable[JsonObject],
    sha256: str | None,
) -> tuple[RevisionState, ...]:
    """What is there of each revision that has a Deployment or a Ready instance, by name.

    `records` are the live `status.revisions`; `sha256` is the digest that the spec asks for.
    """
    by_name = {deployment["metadata"]["name"]: deployment for deployment in deployments}
    have_served = {record["name"] for record in records if record.get("phase") in _HAVE_SERVED}
    ready_pods: dict[str, list[JsonObject]] = {name: [] for name in by_name}
    for pod in pods:
        revision = pod_readings.revision_of(pod)
        if revision and pod_readings.is_ready(pod):
            ready_pods.setdefault(revision, []).append(pod)
    states = []
    for name, ready in sorted(ready_pods.items()):
        doubts = [_doubt(pod, reports, revision=name, sha256=sha256) for pod in ready]
        states.append(
            RevisionState(
                name=name,
                size=by_name[name]["spec"]["replicas"] if name in by_name else 0,
                ready=len(ready),
                available=_available(by_name[name]) if name in by_name else 0,
                verified=sum(doubt is None for doubt in doubts),
                mismatches=tuple(doubt for doubt in doubts if doubt),
                has_served=name in have_served,
            )
        )
    return tuple(states)


def serving_revision(
    *, states: Iterable[RevisionState], records: Iterable[JsonObject], selected: str | None
) -> str | None:
    """The revision that has the traffic; None while none has.

    What the status remembers comes first: the live Service may have been edited by somebody. The
    Service counts when nothing is remembered, and only with instances that really are Ready.
    """
    by_name = {state.name: state for state in states}
    for record in records:
        if record.get("phase") == RevisionPhase.SERVING.value and record["name"] in by_name:
            return str(record["name"])
    return selected if selected in by_name and by_name[selected].ready > 0 else None


def revision_records(
    *,
    decision: RolloutDecision,
    deployments: Iterable[JsonObject],
    pods: Iterable[JsonObject],
    before: Iterable[JsonObject],
    weights: Mapping[str, JsonObject],
    limit: int,
    now: datetime,
) -> list[JsonObject]:
    """The new `status.revisions`, newest first; of those without instances `limit` are remembered.

    `before` is the live list; `weights` are the fields that instances state, by revision.
    """
    old = {record["name"]: record for record in before}
    ready = Counter(pod_readings.revision_of(pod) for pod in pods if pod_readings.is_ready(pod))
    instances = {d["metadata"]["name"]: d.get("status", {}).get("replicas", 0) for d in deployments}
    records = []
    for name in {decision.wanted, *decision.sizes, *old, *instances}:
        phase = _phase(name, decision=decision)
        record = _record(name, phase=phase, before=old.get(name, {}), weights=weights.get(name, {}), now=now)
        if phase is not RevisionPhase.RETIRED:
            record["replicas"] = instances.get(name, 0)
            record["readyReplicas"] = ready[name]
            record["weight"] = 100 if phase is RevisionPhase.SERVING else 0
        if phase is RevisionPhase.CANDIDATE:
            record["message"] = decision.message
        records.append(record)
    records.sort(key=lambda record: (record["created"], record["name"]), reverse=True)
    retired = [record["name"] for record in records if record["phase"] == RevisionPhase.RETIRED.value]
    forgotten = set(retired[limit:])
    return [record for record in records if record["name"] not in forgotten]


def _record(
    name: str, *, phase: RevisionPhase, before: JsonObject, weights: JsonObject, now: datetime
) -> JsonObject:
    """What is remembered of a revision even when it has no instances any more."""
    comes_back = before.get("phase") == RevisionPhase.RETIRED.value and phase is not RevisionPhase.RETIRED
    made_anew = comes_back or "created" not in before
    record: JsonObject = {
        "name": name,
        "phase": phase.value,
        "created": timestamp(now) if made_anew else before["created"],
        **{key: before[key] for key in ("modelRevision", "weightsDigest") if key in before},
        **weights,
    }
    if phase in (RevisionPhase.SERVING, RevisionPhase.PREVIOUS):
        record["outcome"] = RevisionOutcome.PROMOTED.value
    elif phase is RevisionPhase.RETIRED:
        record["outcome"] = before.get("outcome", RevisionOutcome.SUPERSEDED.value)
    return record


def _doubt(
    pod: JsonObject, reports: Mapping[str, InstanceReport], *, revision: str, sha256: str | None
) -> str | None:
    """Why a Ready instance is not verified: empty when it has not said, a sentence when it said otherwise."""
    name = pod_readings.name_of(pod)
    report = reports.get(name)
    if report is None:
        return ""
    if report.revision != revision:
        return f"pod {name} says that it is {report.revision or 'no revision'} and not {revision}"
    if sha256 and report.weights_digest != f"sha256:{sha256}":
        return (
            f"pod {name} serves weights {report.weights_digest or 'without a digest'} and not sha256:{sha256}"
        )
    return None


def _available(deployment: JsonObject) -> int:
    """Available instances of the Deployment's present template; 0 while its controller lags behind."""
    status = deployment.get("status", {})
    if status.get("observedGeneration", 0) < deployment["metadata"].get("generation", 0):
        return 0
    return int(min(status.get("availableReplicas", 0), status.get("updatedReplicas", 0)))


def _phase(name: str, *, decision: RolloutDecision) -> RevisionPhase:
    if name == decision.serving and decision.has_served:
        return RevisionPhase.SERVING
    if name == decision.wanted:
        return RevisionPhase.CANDIDATE
    return RevisionPhase.PREVIOUS if name in decision.sizes else RevisionPhase.RETIRED
