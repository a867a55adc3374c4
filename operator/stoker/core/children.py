"""Which writes bring the children of a service to what was decided?

Only children that lack something are written, and only those that are ours: an object that merely
bears the name is left to its owner, and `taken_name` tells the user. The order matters, as a plan
stops at the first write that fails: instances before the Service that selects them, and whatever
goes, goes last.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.api import names
from stoker.api.reasons import Reason
from stoker.core import resources
from stoker.core.config import Config
from stoker.core.model import Action, Apply, Delete, JsonObject, Observed, Refusal
from stoker.core.rollout import RolloutDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildPlan:
    """What to write, and what of it somebody else had changed."""

    actions: tuple[Action, ...]
    repairs: tuple[str, ...]
    """Of each child that somebody else changed, what and how, for a person."""


def taken_name(observed: Observed) -> Refusal | None:
    """Why a child cannot be made: its name belongs to somebody else's object."""
    service = observed.service
    name = names.child_name(service["metadata"]["name"])
    for kind, objects in (
        ("Service", observed.services),
        ("ServiceAccount", observed.service_accounts),
        ("PodDisruptionBudget", observed.disruption_budgets),
    ):
        live = resources.named(name, objects)
        if live is not None and not resources.is_owned(live, service=service):
            return Refusal(
                reason=Reason.NAME_TAKEN,
                message=f"a {kind} `{name}` that Stoker did not make exists in this namespace; "
                "delete or rename it, or give the InferenceService another name",
            )
    return None


def own_deployments(observed: Observed) -> tuple[JsonObject, ...]:
    """The Deployments that were made for this service and stay."""
    return tuple(
        deployment
        for deployment in observed.deployments
        if resources.is_owned(deployment, service=observed.service) and not resources.is_leaving(deployment)
    )


def selected_revision(observed: Observed) -> str | None:
    """The revision that the live Service sends clients to."""
    live = resources.named(names.child_name(observed.service["metadata"]["name"]), observed.services)
    if live is None or not resources.is_owned(live, service=observed.service):
        return None
    selector = live["spec"].get("selector") or {}
    return selector.get(names.REVISION_LABEL)


def plan_children(
    observed: Observed, *, decision: RolloutDecision, wanted: str, template: JsonObject | None, config: Config
) -> ChildPlan:
    """The writes. `template` is the pod template that the spec asks for, None while it asks for nothing."""
    service = observed.service
    deployments = own_deployments(observed)
    pairs: list[tuple[JsonObject, Sequence[JsonObject]]] = [
        (resources.service_account(service), observed.service_accounts)
    ]
    for name, size in sorted(decision.sizes.items()):
        live = resources.named(name, deployments)
        kept = resources.kept_template(live) if live else None
        pod_template = kept or (template if name == wanted else None)
        if pod_template is not None:
            desired = resources.deployment(
                service, revision=name, template=pod_template, replicas=size, config=config
            )
            pairs.append((desired, observed.deployments))
    pairs.append((resources.cluster_service(service, serving=decision.serving), observed.services))
    pairs.append(
        (resources.disruption_budget(service, serving=decision.serving), observed.disruption_budgets)
    )

    actions: list[Action] = []
    repairs = []
    for desired, objects in pairs:
        live = resources.named(desired["metadata"]["name"], objects)
        if live and (resources.is_leaving(live) or not resources.is_owned(live, service=service)):
            continue
        if change := resources.needed_change(desired, live):
            actions.append(Apply(object=desired, reason=change.reason))
            if change.drift:
                repairs.append(f"{desired['kind']} {desired['metadata']['name']}: {change.reason}")
    leaving = [
        (resources.named(name, deployments), reason) for name, reason in sorted(decision.leaving.items())
    ]
    actions += [Delete(object=live, reason=reason) for live, reason in leaving if live]
    return ChildPlan(actions=tuple(actions), repairs=tuple(repairs))
