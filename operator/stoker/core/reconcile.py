"""What should happen next for one service? The file to read first.

The operator calls `reconcile` whenever something about a service may have changed, with everything
as it is now. It remembers nothing and does nothing itself: the answer is a plan, and the next look
starts from the world again. In order:

1.  A service that is being deleted is left alone; its children go by owner reference.
2.  The spec is read (`validation`). One that cannot be carried out takes nothing down: the last
    revision goes on, its children are kept in repair, and the conditions say what to change.
3.  The spec's name as a revision tells whether new pods are needed (`revision`).
4.  What is there is counted: revisions, Ready and verified instances (`history`), problems (`diagnose`).
5.  How many instances are wanted (`replicas`), which revision serves and which one goes (`rollout`).
6.  The children that this asks for are compared with the live ones, and only those that lack
    something are written (`resources`, `diff`).
7.  The status says all that (`status`, `readiness`); an Event is sent where a condition changed.

The same input gives the same plan, and a plan that was carried out leads to an empty one.
"""

from dataclasses import dataclass
from datetime import datetime

from stoker.api.reasons import ConditionType
from stoker.api.spec import InferenceServiceSpec
from stoker.core import history, resources
from stoker.core.children import ChildPlan, own_deployments, plan_children, selected_revision, taken_name
from stoker.core.conditions import find, moment
from stoker.core.config import Config
from stoker.core.events import events
from stoker.core.model import JsonObject, Observed, Plan, Refusal
from stoker.core.podspec import pod_template
from stoker.core.replicas import WantedReplicas, wanted_replicas
from stoker.core.revision import name_revision
from stoker.core.rollout import RevisionState, decide
from stoker.core.status import Findings, whole_status
from stoker.core.validation import read_spec


def reconcile(observed: Observed, *, config: Config, now: datetime) -> Plan:
    """Everything that should happen next for the service in `observed`."""
    before = observed.service.get("status", {})
    if resources.is_leaving(observed.service):
        return Plan(actions=(), status=before)

    intent = _read_intent(observed, config=config)
    states = history.revision_states(
        deployments=own_deployments(observed),
        pods=observed.pods,
        reports=observed.reports,
        records=before.get("revisions", []),
        sha256=intent.spec.model.sha256 if intent.spec else None,
    )
    selected = selected_revision(observed)
    serving = history.serving_revision(states=states, records=before.get("revisions", []), selected=selected)
    replicas = _replicas(
        intent.spec, before=before, live=next((s for s in states if s.name == serving), None)
    )
    decision = None
    children = ChildPlan(actions=(), repairs=())
    if intent.wanted is not None:
        decision = decide(
            wanted=intent.wanted,
            replicas=replicas.count,
            serving=serving,
            selected=selected,
            revisions=states,
            since_switch_s=_since_switch_s(before, now=now),
        )
        children = plan_children(
            observed, decision=decision, wanted=intent.wanted, template=intent.template, config=config
        )
    findings = Findings(
        spec=intent.spec,
        refusal=intent.refusal,
        wanted=intent.wanted,
        replicas=replicas,
        decision=decision,
        states=states,
    )
    status = whole_status(observed, findings, now=now)
    return Plan(
        actions=children.actions,
        status=status,
        events=events(before=before, after=status, actions=children.actions, repairs=children.repairs),
        requeue_after_s=decision.look_again_s if decision else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Intent:
    """What the user asks for, as far as it can be carried out."""

    spec: InferenceServiceSpec | None = None
    refusal: Refusal | None = None
    wanted: str | None
    """The revision to bring about; None when the spec gives none and there is none to keep."""
    template: JsonObject | None = None
    """Pod template of that revision, should it have to be made."""


def _read_intent(observed: Observed, *, config: Config) -> _Intent:
    """The spec as a revision; for one that cannot be carried out, the last revision that could."""
    answer = taken_name(observed) or read_spec(observed.service, config=config)
    if isinstance(answer, Refusal):
        newest = max(own_deployments(observed), key=_creation, default=None)
        return _Intent(refusal=answer, wanted=newest["metadata"]["name"] if newest else None)
    name = observed.service["metadata"]["name"]
    wanted = name_revision(answer.spec, service_name=name)
    template = pod_template(answer.spec, answer.source, service_name=name, revision=wanted, config=config)
    return _Intent(spec=answer.spec, wanted=wanted, template=template)


def _replicas(
    spec: InferenceServiceSpec | None, *, before: JsonObject, live: RevisionState | None
) -> WantedReplicas:
    last_desired = before.get("scaling", {}).get("desired")
    size = live.size if live else None
    if spec is None:
        # Without bounds that can be trusted the number stays as it is.
        known = last_desired if last_desired is not None else size or 0
        return wanted_replicas(pinned=None, last_desired=known, live=size, least=known, most=known)
    return wanted_replicas(
        pinned=spec.replicas,
        last_desired=last_desired,
        live=size,
        least=spec.scaling.min_replicas,
        most=spec.scaling.max_replicas,
    )


def _since_switch_s(before: JsonObject, *, now: datetime) -> float | None:
    """Seconds since a rollout last began or ended."""
    rolled_out = find(before.get("conditions", []), ConditionType.ROLLED_OUT)
    return (now - moment(rolled_out["lastTransitionTime"])).total_seconds() if rolled_out else None


def _creation(deployment: JsonObject) -> tuple[str, str]:
    metadata = deployment["metadata"]
    return metadata.get("creationTimestamp", ""), metadata["name"]
