"""What does the container of an engine say of its capacity? Its arguments, its environment, its memory.

The operator reads them from a spec and `stoker plan` from a spec or its own options, and from here on both
do the same: so a plan is what the operator will say. The spec itself is not read here, as the models of the
API take longer to import than a plan takes.

A processor is no row of a catalogue: its memory is the container's, and the size of its KV cache a setting.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from stoker.core.capacity.architecture import ModelConfig
from stoker.core.capacity.catalog import Accelerator
from stoker.core.capacity.engine_settings import CPU_KV_SPACE, EngineSettings, engine_settings
from stoker.core.capacity.form import Form, read_form
from stoker.core.capacity.given_arguments import given_arguments, refused
from stoker.core.model import Refusal

OUR_IMAGE: Mapping[str, str] = MappingProxyType({CPU_KV_SPACE: "1"})
"""Environment of our images, as `serving_image/Dockerfile.cpu` sets it; GPUs pass it over."""
_BYTES_OF_DTYPE = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContainer:
    """The container that an engine runs in, as far as capacity depends on it."""

    args: tuple[str, ...]
    environment: Mapping[str, str]
    """The variables that are known: those of the image, then the user's."""
    memory_bytes: int | None = None
    """Most memory that it may use; None without a limit."""


def loaded_as(model: ModelConfig, args: Sequence[str]) -> tuple[ModelConfig, Form] | Refusal:
    """The model in the type that the engine computes in, and the form that it brings the weights into.

    Example: `--dtype float32` has 4 bytes for each element, in the KV cache and in weights that are not
    quantized.
    """
    given = given_arguments(args)
    if isinstance(given, Refusal):
        return given
    form = read_form(model, given.values.get("--quantization"))
    if isinstance(form, Refusal):
        return form
    element_bytes = _BYTES_OF_DTYPE.get(given.values.get("--dtype", ""), model.bytes_per_element)
    return replace(model, bytes_per_element=element_bytes), form


def with_memory_of(container: EngineContainer, kind: Accelerator) -> Accelerator:
    """The accelerator; a processor has the memory of the container, if that has a limit."""
    if kind.vendor != "cpu" or container.memory_bytes is None:
        return kind
    return replace(kind, visible_bytes=container.memory_bytes, estimated=False)


def settings_on(
    kind: Accelerator, container: EngineContainer, *, count: int | None = None
) -> EngineSettings | Refusal:
    """What the engine makes of its arguments on an accelerator; with a count, on so many of them.

    The count is shared out over what pipeline and data parallelism leave: 8 with `-pp 2` are 4 ranks of
    tensor parallelism.
    """
    settings = engine_settings(container.args, accelerator=kind, environment=container.environment)
    if isinstance(settings, Refusal):
        return settings
    if count is not None and count != settings.ranks:
        others = settings.pipeline_parallel * settings.data_parallel
        if count % others:
            return refused(
                f"{count} accelerators can't be shared out over {settings.pipeline_parallel} pipeline ranks "
                f"and {settings.data_parallel} engines side by side"
            )
        words = (*container.args, "--tensor-parallel-size", str(count // others))
        return settings_on(kind, replace(container, args=words))
    if kind.vendor == "cpu" and settings.kv_cache_memory_bytes is None:
        return refused(f"the size of the KV cache is not known; set {CPU_KV_SPACE}", where="engine.env")
    return settings
