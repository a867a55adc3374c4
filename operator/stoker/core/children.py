"""Which writes bring the children of a service to what was decided?

Only children that lack something are written, and only those that are ours: an object that merely
bears the name is left to its owner, and `taken_name` tells the user. The order matters, as a plan
stops at the first write that fails: instances before the Service that selects them, and whatever
goes, goes last.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from stoker.api import names
from stoker.api.reasons import Reason
from stoker.core import resources
from stoker.core.config import Config
from stoker.core.model import Action, Apply, Delete, JsonObject, Observed, Refusal
from stoker.core.resources import Ownership, is_leaving, named, ownership
from stoker.core.rollout import RolloutDecision

_Child: TypeAlias = tuple[JsonObject, tuple[JsonObject, ...]]
"""What is wanted, and the live objects of its kind."""
_GARBAGE_S = 2.0
"""Seconds until another look when the garbage collector must take an object before ours can be made."""
NAME_TAKEN_S = 30.0
"""Seconds until another look at a name that is somebody else's; its objects are not watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildPlan:
    """What to write, and what of it somebody else had changed."""

    actions: tuple[Action, ...]
    repairs: tuple[str, ...]
    """Of each child that somebody else changed, what and how, for a person."""
    look_again_s: float | None = None
    """Seconds until another look, when a child could not be written yet."""


NO_CHILDREN = ChildPlan(actions=(), repairs=())


def taken_name(observed: Observed) -> Refusal | None:
    """Why a child cannot be made: its name belongs to somebody else's object."""
    service = observed.service
    name = names.child_name(service["metadata"]["name"])
    for kind, objects in (
        ("Service", observed.services),
        ("ServiceAccount", observed.service_accounts),
        ("PodDisruptionBudget", observed.disruption_budgets),
    ):
        live = named(name, objects)
        if live is not None and ownership(live, service=service) is Ownership.SOMEBODY_ELSE:
            return Refusal(
                reason=Reason.NAME_TAKEN,
                message=f"a {kind} `{name}` that Stoker did not make exists in this namespace; "
                "delete or rename it, or give the InferenceService another name",
            )
    return None


def own_deployments(observed: Observed) -> tuple[JsonObject, ...]:
    """The Deployments that were made for this service and stay."""
    return tuple(deployment for deployment in observed.deployments if _is_ours(deployment, observed))


def selected_revision(observed: Observed) -> str | None:
    """The revision that the live Service sends clients to."""
    live = named(names.child_name(observed.service["metadata"]["name"]), observed.services)
    if live is None or not _is_ours(live, observed):
        return None
    selector = live["spec"].get("selector", {})
    selected: str | None = selector.get(names.REVISION_LABEL)
    return selected


def plan_children(
    observed: Observed,
    *,
    decision: RolloutDecision,
    template: JsonObject | None,
    model_files: Mapping[str, str],
    config: Config,
) -> ChildPlan:
    """The writes. `template` is the pod template that the spec asks for, None while it asks for nothing.

    `model_files` is what is known of models, by revision. It is written after what serves: nobody
    goes without an answer because it could not be kept.
    """
    service, deployments = observed.service, own_deployments(observed)
    children: list[_Child] = [(resources.service_account(service), observed.service_accounts)]
    for name, size in sorted(decision.sizes.items()):
        live = named(name, deployments)
        kept = resources.kept_template(live) if live else None
        if chosen := kept or (template if name == decision.wanted else None):
            desired = resources.deployment(
                service, revision=name, template=chosen, replicas=size, config=config
            )
            children.append((desired, observed.deployments))
    serving = decision.serving
    children += [
        (resources.cluster_service(service, serving=serving), observed.services),
        (resources.disruption_budget(service, serving=serving), observed.disruption_budgets),
    ]
    plan = _writes(observed, [*children, *_memory(observed, model_files)])
    deletions = tuple(
        Delete(object=live, reason=reason)
        for name, reason in sorted(decision.leaving.items())
        if (live := named(name, deployments))
    )
    return replace(plan, actions=plan.actions + deletions)


def plan_memory(observed: Observed, *, model_files: Mapping[str, str]) -> ChildPlan:
    """The one write of a service that has no instances, and is to have none as it is."""
    return _writes(observed, _memory(observed, model_files))


def _memory(observed: Observed, model_files: Mapping[str, str]) -> list[_Child]:
    name = names.model_files_name(observed.service["metadata"]["name"])
    if not model_files and named(name, observed.config_maps) is None:
        return []
    return [(resources.model_files(observed.service, data=model_files), observed.config_maps)]


def _writes(observed: Observed, children: Iterable[_Child]) -> ChildPlan:
    actions: list[Action] = []
    repairs, look_again_s = [], None
    for desired, objects in children:
        live = named(desired["metadata"]["name"], objects)
        if live and not _is_ours(live, observed):
            is_taken = ownership(live, service=observed.service) is Ownership.SOMEBODY_ELSE
            look_again_s = NAME_TAKEN_S if is_taken else _GARBAGE_S
        elif change := resources.needed_change(desired, live):
            actions.append(Apply(object=desired, reason=change.reason))
            if change.drift:
                repairs.append(f"{desired['kind']} {desired['metadata']['name']}: {change.reason}")
    return ChildPlan(actions=tuple(actions), repairs=tuple(repairs), look_again_s=look_again_s)


def _is_ours(live: JsonObject, observed: Observed) -> bool:
    return not is_leaving(live) and ownership(live, service=observed.service) is Ownership.OURS
