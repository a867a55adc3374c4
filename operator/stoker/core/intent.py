"""What does the user ask for, as far as it can be carried out?

A spec that can be becomes a revision with its pod template. For one that cannot, the last revision
that could goes on: nobody's service goes down by a typing error.
"""

from dataclasses import dataclass

from stoker.api.spec import InferenceServiceSpec
from stoker.core.children import own_deployments, taken_name
from stoker.core.config import Config
from stoker.core.model import JsonObject, Observed, Refusal
from stoker.core.podspec import pod_template
from stoker.core.replicas import WantedReplicas, wanted_replicas
from stoker.core.revision import name_revision
from stoker.core.validation import read_spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What to bring about."""

    wanted: str
    """The revision."""
    spec: InferenceServiceSpec | None = None
    """The spec; None when it cannot be carried out."""
    template: JsonObject | None = None
    """Pod template of the wanted revision, should it have to be made."""
    refusal: Refusal | None = None
    """Why the spec, as it is now, is not carried out."""

    @property
    def sha256(self) -> str | None:
        """Digest that the weights of the wanted revision must have."""
        return self.spec.model.sha256 if self.spec else None


def read_intent(observed: Observed, *, config: Config) -> Intent | Refusal:
    """The spec as a revision; for one that cannot be carried out the newest revision there is.

    A `Refusal` when there is none to keep either.
    """
    answer = taken_name(observed) or read_spec(observed.service, config=config)
    if isinstance(answer, Refusal):
        newest = max(own_deployments(observed), key=_creation, default=None)
        return Intent(wanted=newest["metadata"]["name"], refusal=answer) if newest else answer
    name = observed.service["metadata"]["name"]
    wanted = name_revision(answer.spec, service_name=name)
    template = pod_template(answer.spec, answer.source, service_name=name, revision=wanted, config=config)
    return Intent(spec=answer.spec, wanted=wanted, template=template)


def replicas_of(
    spec: InferenceServiceSpec | None, *, last_desired: int | None, live: int | None
) -> WantedReplicas:
    """How many instances are wanted; without bounds that can be trusted, as many as before."""
    if spec is None:
        before = next((number for number in (last_desired, live) if number is not None), 1)
        return wanted_replicas(pinned=None, last_desired=last_desired, live=live, least=before, most=before)
    return wanted_replicas(
        pinned=spec.replicas,
        last_desired=last_desired,
        live=live,
        least=spec.scaling.min_replicas,
        most=spec.scaling.max_replicas,
    )


def _creation(deployment: JsonObject) -> tuple[str, str]:
    return deployment["metadata"]["creationTimestamp"], deployment["metadata"]["name"]
