"""What does `status` say about a service?

Everything a person or a tool reads without looking at the children. It is written only when it
differs from the live one, so nothing in it moves by itself: no ages, no counters of the second, and
a time only beside the state that it is the beginning of.
"""

from dataclasses import replace
from datetime import datetime

from stoker.api import names
from stoker.api.reasons import Reason
from stoker.api.spec import RolloutSpec
from stoker.core import pods as pod_readings
from stoker.core.children import own_deployments
from stoker.core.conditions import FALSE, find, merge, timestamp
from stoker.core.config import Config
from stoker.core.diagnose import diagnose
from stoker.core.fit import Fit
from stoker.core.history import revision_records
from stoker.core.instances import instance_records, starting_summary, weights_by_revision
from stoker.core.intent import Intent
from stoker.core.model import JsonObject, Observed, Refusal
from stoker.core.readiness import Situation, conditions
from stoker.core.replicas import WantedReplicas
from stoker.core.resources import named, revision_selector
from stoker.core.rollout import RolloutDecision

_DECISIONS = 5
"""Changes of the wanted replicas that are remembered."""


def whole_status(
    observed: Observed,
    intent: Intent,
    *,
    fit: Fit,
    decision: RolloutDecision,
    replicas: WantedReplicas,
    config: Config,
    now: datetime,
) -> JsonObject:
    """The new `status`, without a field that says nothing."""
    before = observed.service.get("status", {})
    revisions = revision_records(
        decision=decision,
        deployments=own_deployments(observed),
        pods=observed.pods,
        before=before.get("revisions", []),
        weights=weights_by_revision(observed.pods, observed.reports),
        limit=(intent.spec.rollout if intent.spec else RolloutSpec()).history_limit,
        now=now,
    )
    serves = next((record for record in revisions if record["name"] == decision.serving), {})
    return _filled(
        {
            **_instances_and_conditions(
                observed,
                rollout=_rollout(intent, decision),
                fit=fit,
                serving=decision.serving,
                replicas=replicas,
                least=_least(intent),
                deadline_exceeded=_deadline_exceeded(observed, decision.wanted),
                now=now,
            ),
            "url": _url(observed.service, config),
            "modelVersion": serves.get("modelRevision"),
            "selector": _selector(observed.service, decision.serving),
            "revisions": revisions,
            "capacity": _capacity(before.get("capacity", {}), fit=fit, revision=decision.serving),
            "scaling": scaling_record(replicas, before=before.get("scaling", {}), now=now),
            "traffic": [{"revision": decision.serving, "weight": 100}] if decision.has_served else [],
        }
    )


def refused_status(
    observed: Observed, refusal: Refusal, *, fit: Fit, replicas: WantedReplicas, config: Config, now: datetime
) -> JsonObject:
    """The new `status` when the spec cannot be carried out (yet) and there is nothing to keep."""
    before = observed.service.get("status", {})
    told = _instances_and_conditions(
        observed,
        rollout=refusal,
        fit=fit,
        serving=None,
        replicas=replicas,
        least=1,
        deadline_exceeded=False,
        now=now,
    )
    kept = {key: before[key] for key in ("revisions", "scaling") if key in before}
    return _filled(told | kept | {"url": _url(observed.service, config), "capacity": fit.capacity})


def _instances_and_conditions(
    observed: Observed,
    *,
    rollout: RolloutDecision | Refusal,
    fit: Fit,
    serving: str | None,
    replicas: WantedReplicas,
    least: int,
    deadline_exceeded: bool,
    now: datetime,
) -> JsonObject:
    before = observed.service.get("status", {})
    mine = [pod for pod in observed.pods if serving and pod_readings.revision_of(pod) == serving]
    ready = sum(pod_readings.is_ready(pod) for pod in mine)
    # A pod that has ended is no trouble once others are Ready in its place.
    judged = [pod for pod in observed.pods if ready < replicas.count or not pod_readings.is_over(pod)]
    diagnosis = diagnose(pods=judged, deployments=own_deployments(observed))
    instances = instance_records(
        pods=observed.pods,
        reports=observed.reports,
        diagnosis=diagnosis,
        before=before.get("instances", []),
        now=now,
    )
    situation = Situation(
        rollout=rollout,
        fit=fit,
        replicas=replicas,
        least=least,
        ready=ready,
        diagnosis=diagnosis,
        deadline_exceeded=deadline_exceeded,
        starting=starting_summary(instances),
    )
    generation = observed.service["metadata"]["generation"]
    live = before.get("conditions", [])
    return {
        "observedGeneration": generation,
        "conditions": merge(live, conditions(situation), generation=generation, now=now),
        "ready": f"{ready}/{replicas.count}",
        "replicas": sum(not pod_readings.is_over(pod) for pod in mine),
        "readyReplicas": ready,
        "instances": instances,
    }


def _rollout(intent: Intent, decision: RolloutDecision) -> RolloutDecision | Refusal:
    """What becomes of the spec. While its model is being read, what serves goes on as if nothing was."""
    refusal = intent.refusal
    if refusal is None or refusal.reason is not Reason.READING_CONFIG:
        return refusal or decision
    message = f"{refusal.message}; {decision.message}"
    return replace(decision, rolled_out=False, reason=Reason.READING_CONFIG, message=message)


def _capacity(before: JsonObject, *, fit: Fit, revision: str) -> JsonObject:
    """How much an instance of the revision that serves holds; what is known of another one says nothing."""
    return next((known for known in (fit.capacity, before) if known.get("revision") == revision), {})


def scaling_record(wanted: WantedReplicas, *, before: JsonObject, now: datetime) -> JsonObject:
    """The new `status.scaling`; a decision is remembered when the number changes."""
    decisions = list(before.get("decisions", []))
    told = {"desired": wanted.count, "reason": wanted.reason.value, "message": wanted.message}
    if before.get("desired") != wanted.count:
        decisions = [{"time": timestamp(now), **told}, *decisions][:_DECISIONS]
    return {**told, "decisions": decisions}


def _url(service: JsonObject, config: Config) -> str:
    """What clients set as the base URL of an OpenAI client: the gateway's, else the instances' own."""
    metadata = service["metadata"]
    own = f"http://{names.child_name(metadata['name'])}.{metadata['namespace']}.svc/v1"
    return config.gateway_url or own


def _selector(service: JsonObject, serving: str) -> str:
    """The pods that the scale subresource counts: those that serve."""
    return ",".join(f"{key}={value}" for key, value in sorted(revision_selector(service, serving).items()))


def _least(intent: Intent) -> int:
    """Instances below which the service does not count as available."""
    if intent.spec is None:
        return 1
    return intent.spec.scaling.min_replicas if intent.spec.replicas is None else intent.spec.replicas


def _deadline_exceeded(observed: Observed, revision: str) -> bool:
    """Whether Kubernetes says that the revision's Deployment has made no progress for its deadline."""
    deployment = named(revision, own_deployments(observed))
    if deployment is None:
        return False
    progressing = find(deployment.get("status", {}).get("conditions", []), "Progressing")
    return progressing is not None and progressing["status"] == FALSE


def _filled(status: JsonObject) -> JsonObject:
    return {key: value for key, value in status.items() if value is not None and value not in ([], {})}
