"""What does the user ask for, as far as it can be carried out?

A spec that can be becomes a revision with its pod template. For one that cannot, the last revision
that could goes on: nobody's service goes down by a typing error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.api.spec import InferenceServiceSpec
from stoker.core.children import own_deployments, taken_name
from stoker.core.config import Config
from stoker.core.fit import Fit
from stoker.core.model import JsonObject, Observed, Refusal
from stoker.core.podspec import pod_template
from stoker.core.replicas import WantedReplicas, wanted_replicas
from stoker.core.resources import named
from stoker.core.validation import ValidSpec, read_spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What to bring about."""

    wanted: str
    """The revision."""
    spec: InferenceServiceSpec | None = None
    """The spec; None when it cannot be trusted."""
    template: JsonObject | None = None
    """Pod template of the wanted revision, should it have to be made; None when it is not the spec's."""
    refusal: Refusal | None = None
    """Why the spec, as it is now, is not carried out, or not yet."""

    @property
    def sha256(self) -> str | None:
        """Digest that the weights of the wanted revision must have."""
        return self.spec.model.sha256 if self.spec and self.template else None


def read_asked(observed: Observed, *, config: Config) -> ValidSpec | Refusal:
    """The spec, if it can be carried out at all."""
    return taken_name(observed) or read_spec(observed.service, config=config)


def read_intent(
    observed: Observed, asked: ValidSpec | Refusal, *, fit: Fit, config: Config
) -> Intent | Refusal:
    """The spec as a revision; for one that gets no pods (yet) the newest revision there is.

    A revision that has a Deployment keeps it, whatever is found out later about its size. A `Refusal`
    when there is nothing to keep either.
    """
    deployments = own_deployments(observed)
    if isinstance(asked, Refusal):
        return _kept(deployments, spec=None, refusal=asked)
    if fit.refusal and named(asked.revision, deployments) is None:
        return _kept(deployments, spec=asked.spec, refusal=fit.refusal)
    template = pod_template(
        asked.spec,
        asked.source,
        service_name=observed.service["metadata"]["name"],
        revision=asked.revision,
        config=config,
    )
    return Intent(spec=asked.spec, wanted=asked.revision, template=template)


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


def _kept(
    deployments: Sequence[JsonObject], *, spec: InferenceServiceSpec | None, refusal: Refusal
) -> Intent | Refusal:
    newest = max(deployments, key=_creation, default=None)
    return Intent(wanted=newest["metadata"]["name"], spec=spec, refusal=refusal) if newest else refusal


def _creation(deployment: JsonObject) -> tuple[str, str]:
    return deployment["metadata"]["creationTimestamp"], deployment["metadata"]["name"]
