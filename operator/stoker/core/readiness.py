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
from stoker.core.fit import Fit
from stoker.core.model import Refusal
from stoker.core.replicas import WantedReplicas
from stoker.core.rollout import RolloutDecision

_NAMED_PODS = 5
"""Pods named in the message of `Ready`; `InstancesHealthy` has their causes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a reconcile found and decided."""

    rollout: RolloutDecision | Refusal
    """What becomes of the spec, or why it is not carried out as it is now."""
    fit: Fit
    replicas: WantedReplicas
    least: int
    """Instances below which the service does not count as available."""
    ready: int
    """Ready instances of the serving revision."""
    diagnosis: Diagnosis
    deadline_exceeded: bool
    """Whether the wanted revision has made no progress for longer than the deadline."""
    starting: str
    """What the instances that are not Ready do, such as `2 Loading`; empty when there are none."""

    @property
    def count(self) -> str:
        """How far the serving revision is, for a person."""
        return f"{self.ready} of {self.replicas.count} Ready"


def conditions(situation: Situation) -> tuple[Condition, ...]:
    """All conditions of a service, `Ready` first."""
    always = (
        _ready(situation),
        _available(situation),
        _rolled_out(situation),
        Condition(
            type=ConditionType.MODEL_FITS,
            status=situation.fit.status,
            reason=situation.fit.reason,
            message=situation.fit.message,
        ),
        _instances_healthy(situation),
        _capacity_available(situation),
        _scaling_active(situation),
    )
    progress = _kstatus(situation)
    return (*always, progress) if progress else always


def _ready(situation: Situation) -> Condition:
    rollout, count = situation.rollout, situation.count
    if isinstance(rollout, Refusal):
        goes_on = f". What served before goes on with {count}" if situation.ready else ""
        return _condition(ConditionType.READY, FALSE, rollout.reason, rollout.message + goes_on)
    beside = "" if rollout.rolled_out else f". {_progress(situation, rollout)[1]}"
    problems = situation.diagnosis.problems
    if situation.replicas.count == 0:
        return _condition(ConditionType.READY, TRUE, Reason.SCALED_TO_ZERO, f"no instance is wanted{beside}")
    if situation.ready == 0 and problems:
        return _condition(ConditionType.READY, FALSE, problems[0].reason, sentences(problems))
    if situation.ready == 0:
        message = f"{count}; {situation.starting or 'no pod is there yet'}"
        return _condition(ConditionType.READY, FALSE, Verdict.STARTING, message)
    if situation.ready < situation.replicas.count:
        troubles = "".join(f"; {p.subject}: {p.reason.value}" for p in problems[:_NAMED_PODS])
        message = f"{count}{troubles}{beside}"
        return _condition(ConditionType.READY, TRUE, Reason.SERVING_BELOW_WANTED, message)
    return _condition(ConditionType.READY, TRUE, Reason.SERVING, f"{count}{beside}")


def _available(situation: Situation) -> Condition:
    wanted = situation.replicas.count
    if wanted == 0:
        return _condition(ConditionType.AVAILABLE, TRUE, Reason.SCALED_TO_ZERO, "no instance is wanted")
    least = min(max(situation.least, 1), wanted)
    message = f"{situation.ready} Ready, at least {least} must be"
    if situation.ready >= least:
        return _condition(ConditionType.AVAILABLE, TRUE, Reason.SERVING, message)
    reason = Reason.SERVING_BELOW_WANTED if situation.ready else Reason.NO_READY_INSTANCE
    return _condition(ConditionType.AVAILABLE, FALSE, reason, message)


def _rolled_out(situation: Situation) -> Condition:
    rollout = situation.rollout
    if isinstance(rollout, Refusal):
        return _condition(ConditionType.ROLLED_OUT, FALSE, rollout.reason, rollout.message)
    if rollout.rolled_out:
        return _condition(ConditionType.ROLLED_OUT, TRUE, rollout.reason, rollout.message)
    return _condition(ConditionType.ROLLED_OUT, FALSE, *_progress(situation, rollout))


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
    message = "no instance waits for a node"
    return _condition(ConditionType.CAPACITY_AVAILABLE, TRUE, Reason.SUFFICIENT, message)


def _scaling_active(situation: Situation) -> Condition:
    pinned = situation.replicas.reason is ScalingReason.PINNED
    reason = ScalingReason.PINNED if pinned else ScalingReason.NO_SIGNAL
    return _condition(ConditionType.SCALING_ACTIVE, FALSE, reason, situation.replicas.message)


def _kstatus(situation: Situation) -> Condition | None:
    """`Reconciling` while waiting helps, `Stalled` when it does not, neither when all is done."""
    rollout = situation.rollout
    if isinstance(rollout, Refusal):
        waits = rollout.reason is Reason.READING_CONFIG
        type_ = ConditionType.RECONCILING if waits else ConditionType.STALLED
        return _condition(type_, TRUE, rollout.reason, rollout.message)
    if rollout.rolled_out and situation.ready >= situation.replicas.count:
        return None
    reason, message = _progress(situation, rollout)
    if situation.deadline_exceeded:
        return _condition(ConditionType.STALLED, TRUE, Reason.PROGRESS_DEADLINE_EXCEEDED, message)
    return _condition(ConditionType.RECONCILING, TRUE, reason, message)


def _progress(situation: Situation, rollout: RolloutDecision) -> tuple[Explained, str]:
    """What keeps the wanted revision from serving in full: a problem of its pods, else how far it is."""
    problems = situation.diagnosis.of_revision(rollout.wanted).problems
    if problems:
        return problems[0].reason, f"{rollout.message}. {sentences(problems)}"
    if situation.deadline_exceeded:
        return Reason.PROGRESS_DEADLINE_EXCEEDED, rollout.message
    if rollout.rolled_out:
        return Reason.SERVING_BELOW_WANTED, situation.count
    return rollout.reason, rollout.message


def _condition(type_: ConditionType, status: str, reason: Explained, message: str) -> Condition:
    return Condition(type=type_, status=status, reason=reason, message=message)
