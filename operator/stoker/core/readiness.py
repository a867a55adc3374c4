"""How is the service, in conditions? The roll-up of what the other modules found.

`Ready` answers whether clients get answers, `RolledOut` whether they get them from the revision that
the spec asks for, `InstancesHealthy` and `CapacityAvailable` what holds instances up. A candidate
that fails leaves `Ready` alone, as users notice nothing of it; it shows in `RolledOut`, in the
message of `Ready`, and as `Stalled` once its deadline is over.

`Reconciling` and `Stalled` are for kstatus, which takes any object with the first for in progress and
with the second for failed. A spec that cannot be carried out is `Stalled` from the start.
"""

from dataclasses import dataclass

from stoker.api.reasons import ConditionType, Explained, Reason, ScalingReason, Verdict
from stoker.core.conditions import FALSE, TRUE, Condition
from stoker.core.diagnose import Diagnosis, sentences
from stoker.core.model import Refusal
from stoker.core.replicas import WantedReplicas
from stoker.core.rollout import RolloutDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a reconcile found and decided."""

    refusal: Refusal | None
    """Why the spec, as it is now, is not carried out."""
    wanted: str | None
    """Revision that the last spec which could be carried out asks for."""
    replicas: WantedReplicas
    least: int
    """Instances below which the service does not count as available."""
    rollout: RolloutDecision | None
    """None when there is nothing that could serve."""
    ready: int
    """Ready instances of the serving revision."""
    diagnosis: Diagnosis
    deadline_exceeded: bool
    """Whether the wanted revision has made no progress for longer than the deadline."""
    starting: str
    """What the instances that are not Ready do, such as `2 Loading`; empty when there are none."""


def conditions(situation: Situation) -> tuple[Condition, ...]:
    """All conditions of a service, `Ready` first."""
    always = (
        _ready(situation),
        _available(situation),
        _rolled_out(situation),
        _instances_healthy(situation),
        _capacity_available(situation),
        _scaling_active(situation),
    )
    return always + _kstatus(situation)


def _ready(situation: Situation) -> Condition:
    count = f"{situation.ready} of {situation.replicas.count} Ready"
    if situation.refusal:
        goes_on = f" What served before goes on: {count}." if situation.ready else ""
        return _condition(
            ConditionType.READY, FALSE, situation.refusal.reason, situation.refusal.message + goes_on
        )
    candidate = (
        "" if situation.rollout is None or _is_served(situation) else f". {_rollout_message(situation)}"
    )
    if situation.replicas.count == 0:
        return _condition(
            ConditionType.READY, TRUE, Reason.SCALED_TO_ZERO, f"no instance is wanted{candidate}"
        )
    if situation.ready == 0:
        problems = situation.diagnosis.problems
        reason: Explained = problems[0].reason if problems else Verdict.STARTING
        told = sentences(problems) if problems else f"{count}; {situation.starting or 'no pod is there yet'}"
        return _condition(ConditionType.READY, FALSE, reason, told)
    if situation.ready < situation.replicas.count:
        return _condition(ConditionType.READY, TRUE, Reason.SERVING_BELOW_WANTED, f"{count}{candidate}")
    return _condition(ConditionType.READY, TRUE, Reason.SERVING, f"{count}{candidate}")


def _available(situation: Situation) -> Condition:
    wanted = situation.replicas.count
    least = min(max(situation.least, 1), wanted)
    message = f"{situation.ready} Ready, at least {least} must be"
    if wanted == 0:
        return _condition(ConditionType.AVAILABLE, TRUE, Reason.SCALED_TO_ZERO, "no instance is wanted")
    if situation.ready >= least:
        return _condition(ConditionType.AVAILABLE, TRUE, Reason.SERVING, message)
    reason = Reason.SERVING_BELOW_WANTED if situation.ready else Reason.NO_READY_INSTANCE
    return _condition(ConditionType.AVAILABLE, FALSE, reason, message)


def _rolled_out(situation: Situation) -> Condition:
    if situation.refusal:
        return _condition(
            ConditionType.ROLLED_OUT, FALSE, situation.refusal.reason, situation.refusal.message
        )
    if _is_served(situation) and situation.rollout:
        return _condition(ConditionType.ROLLED_OUT, TRUE, situation.rollout.reason, situation.rollout.message)
    return _condition(
        ConditionType.ROLLED_OUT, FALSE, _rollout_reason(situation), _rollout_message(situation)
    )


def _instances_healthy(situation: Situation) -> Condition:
    unhealthy = situation.diagnosis.unhealthy
    if unhealthy:
        return _condition(ConditionType.INSTANCES_HEALTHY, FALSE, unhealthy[0].reason, sentences(unhealthy))
    if situation.starting:
        return _condition(ConditionType.INSTANCES_HEALTHY, TRUE, Verdict.STARTING, situation.starting)
    return _condition(ConditionType.INSTANCES_HEALTHY, TRUE, Verdict.HEALTHY, "no instance fails")


def _capacity_available(situation: Situation) -> Condition:
    short = situation.diagnosis.short_of_nodes
    if short:
        return _condition(ConditionType.CAPACITY_AVAILABLE, FALSE, short[0].reason, sentences(short))
    return _condition(
        ConditionType.CAPACITY_AVAILABLE, TRUE, Reason.SUFFICIENT, "no instance waits for a node"
    )


def _scaling_active(situation: Situation) -> Condition:
    pinned = situation.replicas.reason is ScalingReason.PINNED
    reason = ScalingReason.PINNED if pinned else ScalingReason.NO_SIGNAL
    return _condition(ConditionType.SCALING_ACTIVE, FALSE, reason, situation.replicas.message)


def _kstatus(situation: Situation) -> tuple[Condition, ...]:
    if situation.refusal:
        return (_condition(ConditionType.STALLED, TRUE, situation.refusal.reason, situation.refusal.message),)
    if _is_served(situation) and situation.ready >= situation.replicas.count:
        return ()
    if situation.deadline_exceeded:
        reason = Reason.PROGRESS_DEADLINE_EXCEEDED
        return (_condition(ConditionType.STALLED, TRUE, reason, _rollout_message(situation)),)
    if not _is_served(situation):
        reason_now = _rollout_reason(situation)
        return (_condition(ConditionType.RECONCILING, TRUE, reason_now, _rollout_message(situation)),)
    message = f"{situation.ready} of {situation.replicas.count} Ready"
    return (_condition(ConditionType.RECONCILING, TRUE, Reason.SERVING_BELOW_WANTED, message),)


def _is_served(situation: Situation) -> bool:
    return situation.rollout is not None and situation.rollout.rolled_out


def _wanted_diagnosis(situation: Situation) -> Diagnosis:
    return situation.diagnosis.of_revision(situation.wanted or "")


def _rollout_reason(situation: Situation) -> Explained:
    problems = _wanted_diagnosis(situation).problems
    if problems:
        return problems[0].reason
    if situation.deadline_exceeded:
        return Reason.PROGRESS_DEADLINE_EXCEEDED
    return situation.rollout.reason if situation.rollout else Reason.ROLLING_OUT


def _rollout_message(situation: Situation) -> str:
    message = situation.rollout.message if situation.rollout else "nothing is there yet"
    problems = _wanted_diagnosis(situation).problems
    return f"{message}. {sentences(problems)}" if problems else message


def _condition(type_: ConditionType, status: str, reason: Explained, message: str) -> Condition:
    return Condition(type=type_, status=status, reason=reason, message=message)
