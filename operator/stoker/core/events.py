"""What happened just now that a person should be told of?

An Event is sent where something changed, never for a state that goes on: conditions that turned bad
or good again, revisions that came, took over or went, a new number of replicas, and children that
somebody else had changed. The reason of a condition is also the reason of its Event.
"""

from collections.abc import Iterable, Sequence

from stoker.api.reasons import ConditionType, EventReason, Explained, Reason, Verdict
from stoker.api.status import RevisionPhase
from stoker.core.children import NO_CHILDREN, ChildPlan
from stoker.core.conditions import FALSE, TRUE, find
from stoker.core.model import Action, Delete, Event, JsonObject

_NORMAL, _WARNING = "Normal", "Warning"
_TOLD = frozenset(
    {
        ConditionType.READY,
        ConditionType.MODEL_FITS,
        ConditionType.ROLLED_OUT,
        ConditionType.INSTANCES_HEALTHY,
        ConditionType.CAPACITY_AVAILABLE,
    }
)
"""The conditions that people want to hear of; the others say the same in other words."""
_PROGRESS = frozenset(
    {
        Reason.READING_CONFIG,
        Reason.ROLLING_OUT,
        Reason.VERIFYING,
        Verdict.STARTING,
        Reason.NO_READY_INSTANCE,
    }
)
"""Reasons that only say that something is not done yet."""


def events(*, before: JsonObject, after: JsonObject, children: ChildPlan = NO_CHILDREN) -> tuple[Event, ...]:
    """The Events for a change of the status from `before` to `after`."""
    return (
        *_revision_events(before, after),
        *_removals(children.actions),
        *_scaling_events(before, after),
        *(_event(_NORMAL, EventReason.DRIFT_REPAIRED, repair) for repair in children.repairs),
        *_condition_events(before.get("conditions", []), after["conditions"]),
    )


def _condition_events(before: Sequence[JsonObject], after: Sequence[JsonObject]) -> Iterable[Event]:
    told = set()
    for now in after:
        was = find(before, now["type"])
        if now["type"] not in _TOLD:
            continue
        if _is_trouble(now) and (not _is_trouble(was) or (was and was["reason"] != now["reason"])):
            if now["reason"] not in told:
                yield Event(type=_WARNING, reason=now["reason"], message=now["message"])
            told.add(now["reason"])
        if _is_trouble(was) and now["status"] == TRUE:
            yield _event(_NORMAL, EventReason.RECOVERED, f"{now['type']}: {now['message']}")


def _is_trouble(condition: JsonObject | None) -> bool:
    return condition is not None and condition["status"] == FALSE and condition["reason"] not in _PROGRESS


def _revision_events(before: JsonObject, after: JsonObject) -> Iterable[Event]:
    was = {record["name"]: record.get("phase") for record in before.get("revisions", [])}
    gone = RevisionPhase.RETIRED.value
    for record in after.get("revisions", []):
        name, phase = record["name"], record["phase"]
        if was.get(name, gone) == gone and phase != gone:
            yield _event(_NORMAL, EventReason.REVISION_CREATED, f"{name} starts")
        if phase == RevisionPhase.SERVING.value and was.get(name) != phase:
            yield _event(_NORMAL, EventReason.REVISION_SERVING, f"{name} has the traffic")


def _removals(actions: Iterable[Action]) -> Iterable[Event]:
    for action in actions:
        if isinstance(action, Delete):
            name = action.object["metadata"]["name"]
            yield _event(_NORMAL, EventReason.REVISION_REMOVED, f"{name} is deleted: {action.reason}")


def _scaling_events(before: JsonObject, after: JsonObject) -> Iterable[Event]:
    was = before.get("scaling", {}).get("desired")
    now = after.get("scaling", {})
    if was is not None and was != now.get("desired"):
        message = f"from {was} to {now['desired']}: {now['reason']}: {now['message']}"
        yield _event(_NORMAL, EventReason.SCALED, message)


def _event(type_: str, reason: Explained, message: str) -> Event:
    return Event(type=type_, reason=reason.value, message=message)
