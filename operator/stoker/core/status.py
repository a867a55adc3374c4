"""What does `status` say about a service?

Everything a person or a tool reads without looking at the children. It is written only when it
differs from the live one, so nothing in it moves by itself: no ages, no counters of the second, and
a time only beside the state that it is the beginning of.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from stoker.api import names
from stoker.api.spec import InferenceServiceSpec, RolloutSpec
from stoker.api.status import InstanceState
from stoker.core import pods as pod_readings
from stoker.core.children import own_deployments
from stoker.core.conditions import FALSE, TRUE, find, merge, timestamp
from stoker.core.diagnose import Diagnosis, diagnose
from stoker.core.history import revision_records
from stoker.core.model import InstanceReport, JsonObject, Observed, Refusal
from stoker.core.readiness import Situation, conditions
from stoker.core.replicas import WantedReplicas
from stoker.core.resources import named, revision_selector
from stoker.core.rollout import RevisionState, RolloutDecision

_DECISIONS = 5
"""Changes of the wanted replicas that are remembered."""
_OWN_WORDS = frozenset(
    {InstanceState.WEIGHTS, InstanceState.STARTING, InstanceState.LOADING, InstanceState.WARMING_UP}
)
"""Stages of a start that an instance names itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a reconcile found out and decided."""

    spec: InferenceServiceSpec | None
    refusal: Refusal | None
    wanted: str | None
    replicas: WantedReplicas
    decision: RolloutDecision | None
    states: Sequence[RevisionState]


def whole_status(observed: Observed, findings: Findings, *, now: datetime) -> JsonObject:
    """The new `status`, without a field that says nothing."""
    service, before = observed.service, observed.service.get("status", {})
    decision, wanted = findings.decision, findings.replicas.count
    serving = decision.serving if decision else None
    ready = next((state.ready for state in findings.states if state.name == serving), 0)
    # A pod that has ended is no trouble once others are Ready in its place.
    judged = [pod for pod in observed.pods if ready < wanted or not pod_readings.is_over(pod)]
    diagnosis = diagnose(pods=judged, deployments=own_deployments(observed))
    instances = instance_records(
        pods=observed.pods,
        reports=observed.reports,
        diagnosis=diagnosis,
        before=before.get("instances", []),
        now=now,
    )
    situation = Situation(
        refusal=findings.refusal,
        wanted=findings.wanted,
        replicas=findings.replicas,
        least=_least(findings.spec),
        rollout=decision,
        ready=ready,
        diagnosis=diagnosis,
        deadline_exceeded=_deadline_exceeded(named(findings.wanted or "", own_deployments(observed))),
        starting=starting_summary(instances),
    )
    generation = service["metadata"]["generation"]
    weights = weights_by_revision(observed.pods, observed.reports)
    revisions = before.get("revisions", [])
    if decision and findings.wanted:
        revisions = revision_records(
            decision=decision,
            wanted=findings.wanted,
            deployments=own_deployments(observed),
            states=findings.states,
            before=revisions,
            weights=weights,
            limit=(findings.spec.rollout if findings.spec else RolloutSpec()).history_limit,
            now=now,
        )
    serving_record: JsonObject = next((record for record in revisions if record["name"] == serving), {})
    there = [pod for pod in observed.pods if pod_readings.revision_of(pod) == serving and serving]
    status = {
        "observedGeneration": generation,
        "conditions": merge(
            before.get("conditions", []), conditions(situation), generation=generation, now=now
        ),
        "modelVersion": serving_record.get("modelRevision"),
        "ready": f"{ready}/{wanted}",
        "replicas": sum(not pod_readings.is_over(pod) for pod in there),
        "readyReplicas": ready,
        "revisions": revisions,
        "instances": instances,
        "scaling": scaling_record(findings.replicas, before=before.get("scaling", {}), now=now),
        "traffic": [{"revision": serving, "weight": 100}] if decision and decision.has_served else [],
        **endpoint_fields(service, serving=serving),
    }
    return {key: value for key, value in status.items() if value is not None and value != []}


def _least(spec: InferenceServiceSpec | None) -> int:
    if spec is None:
        return 1
    return spec.scaling.min_replicas if spec.replicas is None else spec.replicas


def _deadline_exceeded(deployment: JsonObject | None) -> bool:
    """Whether Kubernetes says that the Deployment has made no progress for its deadline."""
    progressing = (
        find(deployment.get("status", {}).get("conditions", []), "Progressing") if deployment else None
    )
    return progressing is not None and progressing["status"] == FALSE


def instance_records(
    *,
    pods: Iterable[JsonObject],
    reports: Mapping[str, InstanceReport],
    diagnosis: Diagnosis,
    before: Iterable[JsonObject],
    now: datetime,
) -> list[JsonObject]:
    """The new `status.instances`, by name. `before` is the live list, for the times."""
    old = {record["name"]: record for record in before}
    records = []
    for pod in sorted(pods, key=pod_readings.name_of):
        name, revision = pod_readings.name_of(pod), pod_readings.revision_of(pod)
        if revision is None:
            continue
        state = instance_state(pod, report=reports.get(name), diagnosis=diagnosis)
        was = old.get(name, {})
        record = {"name": name, "revision": revision, "state": state.value}
        record["since"] = was["since"] if was.get("state") == state and "since" in was else timestamp(now)
        if node := pod.get("spec", {}).get("nodeName"):
            record["node"] = node
        if version := weights_fields(pod, reports.get(name)).get("modelRevision"):
            record["modelVersion"] = version
        if problem := diagnosis.of_pod(name):
            record["message"] = problem.sentence
        records.append(record)
    return records


def instance_state(pod: JsonObject, *, report: InstanceReport | None, diagnosis: Diagnosis) -> InstanceState:
    """What an instance does: as Kubernetes sees it where it must be true, else in its own words."""
    if pod_readings.is_leaving(pod):
        return InstanceState.DRAINING
    if pod_readings.is_ready(pod):
        return InstanceState.SERVING
    scheduled = find(pod.get("status", {}).get("conditions", []), "PodScheduled")
    if not pod_readings.is_over(pod) and (scheduled is None or scheduled["status"] != TRUE):
        return InstanceState.SCHEDULING
    if pod_readings.is_over(pod) or diagnosis.of_pod(pod_readings.name_of(pod)):
        return InstanceState.FAILED
    if report and report.stage in set(_OWN_WORDS):
        return InstanceState(report.stage)
    if pod_readings.is_running(pod, names.ENGINE_CONTAINER):
        return InstanceState.STARTING
    if pod_readings.is_running(pod, names.WEIGHTS_CONTAINER):
        return InstanceState.WEIGHTS
    return InstanceState.PULLING_IMAGE


def starting_summary(instances: Iterable[JsonObject]) -> str:
    """What those that do not serve yet are doing, for a message: `1 Loading, 2 Weights`."""
    idle = {InstanceState.SERVING, InstanceState.DRAINING, InstanceState.FAILED}
    counts = Counter(record["state"] for record in instances if record["state"] not in idle)
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))


def weights_fields(pod: JsonObject, report: InstanceReport | None) -> JsonObject:
    """What an instance serves, as it states it itself, else as its init container left it."""
    fetched = pod_readings.fetched_weights(pod)
    version = (report.model_version if report else "") or (fetched.model_version if fetched else "")
    digest = (report.weights_digest if report else "") or (fetched.digest if fetched else "")
    fields = {"modelRevision": version, "weightsDigest": digest}
    return {key: value for key, value in fields.items() if value}


def weights_by_revision(
    pods: Sequence[JsonObject], reports: Mapping[str, InstanceReport]
) -> dict[str, JsonObject]:
    """What the instances of each revision serve; Ready ones are heard last and so have the word."""
    said: dict[str, JsonObject] = {}
    for pod in sorted(pods, key=lambda pod: (pod_readings.is_ready(pod), pod_readings.name_of(pod))):
        if revision := pod_readings.revision_of(pod):
            fields = weights_fields(pod, reports.get(pod_readings.name_of(pod)))
            said[revision] = said.get(revision, {}) | fields
    return said


def scaling_record(wanted: WantedReplicas, *, before: JsonObject, now: datetime) -> JsonObject:
    """The new `status.scaling`; a decision is remembered when the number changes."""
    decisions = list(before.get("decisions", []))
    told = {"desired": wanted.count, "reason": wanted.reason.value, "message": wanted.message}
    if before.get("desired") != wanted.count:
        decisions = [{"time": timestamp(now), **told}, *decisions][:_DECISIONS]
    return {**told, "decisions": decisions}


def endpoint_fields(service: JsonObject, *, serving: str | None) -> JsonObject:
    """Where clients send requests, and which pods the scale subresource counts."""
    metadata = service["metadata"]
    fields = {"url": f"http://{names.child_name(metadata['name'])}.{metadata['namespace']}.svc"}
    if serving:
        labels = sorted(revision_selector(service, serving).items())
        fields["selector"] = ",".join(f"{key}={value}" for key, value in labels)
    return fields
