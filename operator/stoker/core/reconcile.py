"""What should happen next for one service? The file to read first.

The operator calls `reconcile` whenever something about a service may have changed, with everything
as it is now. It remembers nothing and does nothing itself: the answer is a plan, and the next look
starts from the world again. In order:

1.  A service that is being deleted is left alone; its children go by owner reference.
2.  The spec is read (`validation`), and whether its model fits (`fit`). One that cannot be carried out
    takes nothing down: the last revision goes on, its children are kept in repair, and the conditions
    say what to change (`intent`).
3.  The spec's name as a revision tells whether new pods are needed (`revision`).
4.  What is there is counted: revisions, Ready and verified instances (`history`), problems (`diagnose`).
5.  How many instances are wanted (`replicas`), which revision serves and which one goes (`rollout`).
6.  The children that this asks for are compared with the live ones, and only those that lack
    something are written (`resources`, `diff`).
7.  The status says all that (`status`, `readiness`), and `events` tells of what changed.

The same input gives the same plan, and a plan that was carried out leads to an empty one.
"""

from datetime import datetime

from stoker.api.reasons import ConditionType, Reason
from stoker.core.children import (
    NAME_TAKEN_S,
    own_deployments,
    plan_children,
    plan_memory,
    selected_revision,
)
from stoker.core.conditions import find, moment
from stoker.core.config import Config
from stoker.core.events import events
from stoker.core.fit import model_fit
from stoker.core.history import revision_states, serving_revision
from stoker.core.intent import read_asked, read_intent, replicas_of
from stoker.core.model import JsonObject, Observed, Plan, Refusal
from stoker.core.model_files import data_to_keep, model_to_read
from stoker.core.resources import is_leaving
from stoker.core.rollout import decide
from stoker.core.status import refused_status, whole_status


def reconcile(observed: Observed, *, config: Config, now: datetime) -> Plan:
    """Everything that should happen next for the service in `observed`."""
    before = observed.service.get("status", {})
    if is_leaving(observed.service):
        return Plan(actions=(), status=before)

    records = before.get("revisions", [])
    last_desired = before.get("scaling", {}).get("desired")
    asked = read_asked(observed, config=config)
    fit = model_fit(observed, asked, config=config)
    to_read = None if isinstance(asked, Refusal) else model_to_read(observed, asked, config=config)
    intent = read_intent(observed, asked, fit=fit, config=config)
    if isinstance(intent, Refusal):
        spec = None if isinstance(asked, Refusal) else asked.spec
        replicas = replicas_of(spec, last_desired=last_desired, live=None)
        status = refused_status(observed, intent, fit=fit, replicas=replicas, config=config, now=now)
        memory = plan_memory(observed, model_files=data_to_keep(observed, asked, records=records))
        return Plan(
            actions=memory.actions,
            status=status,
            events=events(before=before, after=status),
            model_to_read=to_read,
            requeue_after_s=NAME_TAKEN_S if intent.reason is Reason.NAME_TAKEN else None,
        )

    states = revision_states(
        deployments=own_deployments(observed),
        pods=observed.pods,
        reports=observed.reports,
        records=records,
        sha256=intent.sha256,
    )
    selected = selected_revision(observed)
    serving = serving_revision(states=states, records=records, selected=selected)
    replicas = replicas_of(
        intent.spec,
        last_desired=last_desired,
        live=next((state.size for state in states if state.name == serving), None),
    )
    decision = decide(
        wanted=intent.wanted,
        replicas=replicas.count,
        serving=serving,
        selected=selected,
        revisions=states,
        since_switch_s=_since_switch_s(before, now=now),
    )
    status = whole_status(
        observed, intent, fit=fit, decision=decision, replicas=replicas, config=config, now=now
    )
    children = plan_children(
        observed,
        decision=decision,
        template=intent.template,
        model_files=data_to_keep(observed, asked, records=status["revisions"]),
        config=config,
    )
    return Plan(
        actions=children.actions,
        status=status,
        events=events(before=before, after=status, children=children),
        model_to_read=to_read,
        correction=fit.correction,
        requeue_after_s=children.look_again_s or decision.look_again_s,
    )


def _since_switch_s(before: JsonObject, *, now: datetime) -> float | None:
    """Seconds since a rollout last began or ended; None if none ever did."""
    rolled_out = find(before.get("conditions", []), ConditionType.ROLLED_OUT)
    return (now - moment(rolled_out["lastTransitionTime"])).total_seconds() if rolled_out else None
