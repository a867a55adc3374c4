"""What is the estimate of a service's capacity made from?

The model as its files say it is, the accelerator as the catalogue has it, and what the container of the
engine says (`capacity/container.py`), as `stoker plan` reads it too.

An estimate is as certain as these are. What stands on an assumption is in `doubts`.
"""

from dataclasses import dataclass, replace

from stoker.api import names
from stoker.api.reasons import Reason
from stoker.api.spec import InferenceServiceSpec
from stoker.core.capacity.architecture import ModelConfig
from stoker.core.capacity.catalog import Accelerator, accelerator
from stoker.core.capacity.container import (
    OUR_IMAGE,
    EngineContainer,
    loaded_as,
    settings_on,
    with_memory_of,
)
from stoker.core.capacity.engine_settings import EngineSettings, engine_settings
from stoker.core.capacity.estimate import CapacityEstimate, estimate
from stoker.core.capacity.form import in_form, weights_in_form
from stoker.core.capacity.model_config import read_model_config
from stoker.core.capacity.weights import WeightsSize
from stoker.core.engine_args import engine_args
from stoker.core.model import ModelFacts, Refusal
from stoker.core.quantity import parse_quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class FitInputs:
    """All that an estimate is made from."""

    model: ModelConfig
    weights: WeightsSize
    accelerator: Accelerator
    settings: EngineSettings
    container: EngineContainer
    image: str | None
    """The user's own engine image, which may hold another version of the engine."""
    doubts: tuple[str, ...]
    """Why an estimate is not certain, one sentence each; empty if it is."""

    def estimate(self, *, correction: float = 1.0) -> CapacityEstimate:
        """How much one instance holds, the KV cache multiplied with `correction`."""
        return estimate(
            self.model,
            self.weights,
            accelerator=self.accelerator,
            settings=self.settings,
            correction=correction,
        )

    @property
    def correction_key(self) -> str:
        """Hash of all that the size of the KV cache depends on, so not of the context length.

        It is made of what the model is and not of its address: a mirror has the same corrections.
        """
        settings = replace(self.settings, max_model_len=None)
        return names.short_hash(repr((self.model, self.weights, self.accelerator.name, settings, self.image)))


def engine_container(spec: InferenceServiceSpec, *, service_name: str) -> EngineContainer:
    """The container that the engine of a service gets."""
    environment = {variable.name: variable.value or "" for variable in spec.engine.env}
    limit = parse_quantity(spec.pod_template.resources.limits.get("memory"))
    return EngineContainer(
        args=tuple(engine_args(spec, service_name=service_name)),
        environment=environment if spec.engine.image else {**OUR_IMAGE, **environment},
        memory_bytes=None if limit is None else int(limit),
    )


def most_at_once(spec: InferenceServiceSpec, *, service_name: str) -> int | None:
    """Requests that one instance runs at once at most, by the engine's arguments; None if they do not tell.

    It needs no config of the model, so it is known where nothing else can be estimated.
    """
    row = accelerator(spec.accelerator.type)
    if isinstance(row, Refusal):
        return None
    container = engine_container(spec, service_name=service_name)
    settings = engine_settings(container.args, accelerator=row, environment=container.environment)
    if isinstance(settings, Refusal):
        return None
    return settings.max_num_seqs * settings.data_parallel


def fit_inputs(spec: InferenceServiceSpec, facts: ModelFacts, *, service_name: str) -> FitInputs | Refusal:
    """The inputs, or why no estimate can be made."""
    container = engine_container(spec, service_name=service_name)
    model = read_model_config(facts.config)
    row = accelerator(spec.accelerator.type)
    if isinstance(model, Refusal):
        return replace(model, reason=Reason.NOT_ESTIMATED)
    if isinstance(row, Refusal):
        return row
    loaded = loaded_as(model, container.args)
    settings = settings_on(row, container)
    if isinstance(loaded, Refusal):
        return replace(loaded, reason=Reason.NOT_ESTIMATED)
    if isinstance(settings, Refusal):
        return replace(settings, reason=Reason.NOT_ESTIMATED)
    model, form = loaded
    row = with_memory_of(container, row)
    return FitInputs(
        model=in_form(model, form),
        weights=facts.weights or weights_in_form(model, form, stored=None),
        accelerator=row,
        settings=settings,
        container=container,
        image=spec.engine.image,
        doubts=(*model.unknown, *settings.unknown, *form.doubts, *row.doubts),
    )
