"""Which revision serves, how many instances does each have, and which one goes?

Two revisions stand side by side while one takes over from the other:

    wanted   the one that the spec asks for
    serving  the one that the Service selects

The wanted one starts with one instance. When that is Ready and has said itself that it is this
revision, with this digest, it grows to the wanted size. When all of them are available and have
said so, the Service selects it, in one step. The old one leaves some seconds later, when every node
has heard of the change; its instances drain. Nothing about a candidate ever touches the size of the
revision that serves, so a candidate that never becomes Ready changes nothing for users.

Any other revision is on its way out: a candidate that a newer spec superseded, or that the user gave
up by going back, leaves at once. While no revision has ever served there is nothing to protect, and
the wanted one has its full size from the start.

Rejected: a rolling update inside one Deployment (it mixes versions behind the Service, and takes
old instances away as soon as new ones pass their probes, right version or not).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.api.reasons import Reason

PROPAGATION_S = 5.0
"""Seconds until every node has heard of a changed Service; instances that leave wait as long too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionState:
    """What is there of one revision."""

    name: str
    size: int
    """Instances that its Deployment asks for."""
    ready: int
    """Instances that are Ready and not leaving."""
    available: int
    """Instances that its Deployment counts as available, for its present template."""
    verified: int
    """Ready instances that said to be this revision, with the digest that the spec gives, if any."""
    mismatches: tuple[str, ...] = ()
    """What Ready instances said instead, as `pod chat-1 says ...`."""
    has_served: bool = False
    """Whether the Service has selected it before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutDecision:
    """What becomes of the revisions now."""

    wanted: str
    """The revision that the spec asks for."""
    serving: str
    """The revision that the Service is to select."""
    has_served: bool
    """Whether `serving` has had a Ready instance; if not, a newer spec replaces it at once."""
    sizes: Mapping[str, int]
    """Instances that each Deployment is to ask for; the wanted revision is always among them."""
    leaving: Mapping[str, str]
    """Deployments to delete, each with the reason."""
    rolled_out: bool
    reason: Reason
    message: str
    look_again_s: float | None = None
    """Seconds after which time alone changes the decision."""


def decide(
    *,
    wanted: str,
    replicas: int,
    serving: str | None,
    selected: str | None,
    revisions: Sequence[RevisionState],
    since_switch_s: float | None,
) -> RolloutDecision:
    """One step of the takeover.

    `serving` is the revision that has the traffic, None while none has ever been Ready; `selected`
    is the one that the live Service selects; `since_switch_s` are the seconds since a rollout last
    began or ended, None if none ever did.

    Example: `a` serves with 3, `b` is wanted and has one Ready instance that said it is `b`
    -> sizes {a: 3, b: 3}, serving `a`, `RollingOut`.
    """
    states = {state.name: state for state in revisions}
    candidate = states.get(wanted, _absent(wanted))
    old = candidate if serving is None else states.get(serving, _absent(serving))
    if old.name == wanted:
        step = _hold(candidate, replicas=replicas)
    elif _takes_over(candidate, old, replicas=replicas):
        step = _Step(serving=wanted, sizes={wanted: replicas}, message=f"{wanted} took over from {old.name}")
    else:
        step = _prepare(candidate, old, replicas=replicas)

    in_use = {wanted, step.serving}
    idle = [state for state in revisions if state.name not in in_use]
    wait_s = PROPAGATION_S if since_switch_s is None else max(PROPAGATION_S - since_switch_s, 0.0)
    if selected != step.serving:
        wait_s = PROPAGATION_S
    staying = {state.name: state.size for state in idle if state.has_served and wait_s > 0}
    return RolloutDecision(
        wanted=wanted,
        serving=step.serving,
        has_served=step.has_served,
        sizes=step.sizes | staying,
        leaving={s.name: f"{step.serving} serves in its place" for s in idle if s.name not in staying},
        rolled_out=step.reason is Reason.UP_TO_DATE,
        reason=step.reason,
        message=step.message,
        look_again_s=wait_s if staying else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What happens to the two revisions that matter."""

    serving: str
    sizes: dict[str, int]
    message: str
    reason: Reason = Reason.UP_TO_DATE
    has_served: bool = True


def _hold(state: RevisionState, *, replicas: int) -> _Step:
    """The wanted revision has the traffic, or nothing has and it will be the first."""
    sizes = {state.name: replicas}
    if state.has_served or state.ready > 0:
        return _Step(serving=state.name, sizes=sizes, message=f"{state.name} has all the traffic")
    first = f"{state.name} is the first revision and"
    if replicas == 0:
        message = f"{first} will serve when an instance is wanted"
        return _Step(serving=state.name, sizes=sizes, message=message, has_served=False)
    return _Step(
        serving=state.name,
        sizes=sizes,
        reason=Reason.ROLLING_OUT,
        message=f"{first} has no Ready instance yet",
        has_served=False,
    )


def _takes_over(candidate: RevisionState, old: RevisionState, *, replicas: int) -> bool:
    """All wanted instances, or any at all where the old revision has none left to lose."""
    if old.ready == 0 and replicas > 0:
        return candidate.verified > 0
    return candidate.available >= replicas and candidate.verified >= replicas


def _prepare(candidate: RevisionState, old: RevisionState, *, replicas: int) -> _Step:
    """The candidate starts, proves what it is, and grows; the old revision does not notice."""
    size = replicas if candidate.verified else min(replicas, max(candidate.size, 1))
    reason, message = Reason.ROLLING_OUT, f"{candidate.name} has {candidate.ready} of {replicas} Ready"
    if candidate.mismatches:
        reason, message = Reason.WRONG_VERSION, candidate.mismatches[0]
    elif candidate.ready > candidate.verified:
        silent = candidate.ready - candidate.verified
        reason = Reason.VERIFYING
        message = f"{silent} Ready of {candidate.name} has not said yet which version it serves"
    return _Step(
        serving=old.name,
        sizes={candidate.name: size, old.name: replicas},
        reason=reason,
        message=f"{message}; {old.name} goes on serving with {old.ready} Ready",
    )


def _absent(name: str) -> RevisionState:
    return RevisionState(name=name, size=0, ready=0, available=0, verified=0)
