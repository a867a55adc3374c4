"""What is the estimate of a service's capacity made from?

The model as its files say it is, the accelerator as the catalogue has it, and the settings that the
engine gets from the very arguments of its container. A processor is no row of a catalogue: its memory is
the container's, and the size of its KV cache is a setting.

An estimate is as certain as these are. What stands on an assumption is in `doubts`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stoker.api import names
from stoker.api.instance_spec import CPU
from stoker.api.reasons import Reason
from stoker.api.spec import InferenceServiceSpec
from stoker.core.capacity.architecture import ModelConfig
from stoker.core.capacity.catalog import Accelerator, accelerator
from stoker.core.capacity.engine_settings import CPU_KV_SPACE, EngineSettings, engine_settings
from stoker.core.capacity.estimate import CapacityEstimate, estimate
from stoker.core.capacity.model_config import read_model_config
from stoker.core.capacity.weights import WeightsSize, weights_size
from stoker.core.engine_args import engine_args, value_of
from stoker.core.model import ModelFacts, Refusal
from stoker.core.quantity import parse_quantity

_NOT_COUNTED = ("--cpu-offload-gb", "--hf-config-path", "--hf-overrides")
"""Arguments that change what the model is or where its weights are."""
_BYTES_OF_DTYPE = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2}
_IMAGE_KV_SPACE_GIB = "1"
"""As `serving_image/Dockerfile.cpu` sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitInputs:
    """All that an estimate is made from."""

    model: ModelConfig
    weights: WeightsSize
    accelerator: Accelerator
    settings: EngineSettings
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


def fit_inputs(spec: InferenceServiceSpec, facts: ModelFacts, *, service_name: str) -> FitInputs | Refusal:
    """The inputs, or why no estimate can be made."""
    model = read_model_config(facts.config)
    if isinstance(model, Refusal):
        return replace(model, reason=Reason.NOT_ESTIMATED)
    weights = facts.weights or weights_size(model, quantization=quantization(spec), stored=None)
    return inputs_of(spec, model=model, weights=weights, service_name=service_name)


def inputs_of(
    spec: InferenceServiceSpec, *, model: ModelConfig, weights: WeightsSize, service_name: str
) -> FitInputs | Refusal:
    """The inputs for a model that has been read."""
    args = engine_args(spec, service_name=service_name)
    row = _accelerator(spec)
    if isinstance(row, Refusal):
        return row
    settings = engine_settings(args, accelerator=row, environment=_environment(spec))
    if isinstance(settings, Refusal):
        return replace(settings, reason=Reason.NOT_ESTIMATED)
    if row.name == CPU and settings.kv_cache_memory_bytes is None:
        message = f"the size of the KV cache is not known; set {CPU_KV_SPACE} in `engine.env`"
        return Refusal(reason=Reason.NOT_ESTIMATED, message=message)
    if element_bytes := _BYTES_OF_DTYPE.get(value_of(args, "--dtype") or ""):
        model = replace(model, bytes_per_element=element_bytes)
    return FitInputs(
        model=model,
        weights=weights,
        accelerator=row,
        settings=settings,
        image=spec.engine.image,
        doubts=(*model.unknown, *settings.unknown, *_doubts(row, args)),
    )


def quantization(spec: InferenceServiceSpec) -> str | None:
    """Form of the weights in memory, if it is not the one in the files."""
    return value_of(engine_args(spec, service_name=""), "--quantization")


def _accelerator(spec: InferenceServiceSpec) -> Accelerator | Refusal:
    """The row of the catalogue; for processors with the memory of the container, if that has a limit."""
    row = accelerator(spec.accelerator.type)
    if isinstance(row, Refusal) or row.name != CPU:
        return row
    limit = parse_quantity(spec.pod_template.resources.limits.get("memory"))
    return row if limit is None else replace(row, visible_bytes=int(limit), estimated=False)


def _environment(spec: InferenceServiceSpec) -> dict[str, str]:
    """The variables of the engine's container that are known: those of our image, then the user's."""
    ours = {} if spec.engine.image else {CPU_KV_SPACE: _IMAGE_KV_SPACE_GIB}
    return ours | {variable.name: variable.value or "" for variable in spec.engine.env}


def _doubts(row: Accelerator, args: Sequence[str]) -> list[str]:
    doubts = [f"What {name} changes is not counted." for name in _NOT_COUNTED if value_of(args, name)]
    if row.estimated:
        doubts.append(f"The memory of `{row.name}` is derived, and was not read in a log.")
    return doubts
