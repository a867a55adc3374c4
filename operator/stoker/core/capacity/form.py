"""In which form can the weights of a model be served?

As its files hold them, in a form that the engine makes while it loads 16-bit files, or in one that somebody
has to make a checkpoint in first. The last is worth asking for too (would four bits fit?), but the answer
must say that these files are not enough.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from stoker.api.reasons import Reason
from stoker.core.capacity.architecture import ModelConfig, Quantization
from stoker.core.capacity.catalog import Accelerator
from stoker.core.capacity.quantization import with_argument
from stoker.core.capacity.weights import StoredWeights, WeightsSize, weights_size
from stoker.core.model import Refusal

_CHECKPOINTS = {
    "awq": Quantization(method="awq", bits=4, group_size=128),
    "gptq": Quantization(method="gptq", bits=4, group_size=128),
    "modelopt_fp4": Quantization(method="modelopt_fp4", bits=4, group_size=16),
}
"""Forms that need a checkpoint of their own, as such checkpoints usually are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form of the weights."""

    argument: str | None
    """vLLM's `--quantization`; None for the weights as they are stored."""
    quantization: Quantization | None
    """What they are in the engine's memory; None for 16 bits."""
    needs_checkpoint: bool = False
    """Whether the files at hand are not enough."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """What an estimate in this form stands on, in a sentence."""
        if not self.needs_checkpoint:
            return ()
        return (f"These files are not in {self.argument}; it needs a checkpoint of the model in it.",)


def read_form(model: ModelConfig, argument: str | None) -> Form | Refusal:
    """The form that an argument asks for, or why vLLM has none of that name for these weights."""
    quantization = with_argument(model.quantization, argument)
    if argument is None or quantization is not None:
        return Form(argument=argument, quantization=quantization)
    if argument in _CHECKPOINTS:
        return Form(argument=argument, quantization=_CHECKPOINTS[argument], needs_checkpoint=True)
    return Refusal(
        reason=Reason.INVALID_SPEC,
        message=f"there is no way from 16-bit weights to `{argument}`; give fp8, bitsandbytes or mxfp8, "
        f"which the engine makes as it loads, or {', '.join(_CHECKPOINTS)}, which need a checkpoint",
    )


def in_form(model: ModelConfig, form: Form) -> ModelConfig:
    """The model as the engine holds it."""
    return replace(model, quantization=form.quantization)


def weights_in_form(model: ModelConfig, form: Form, *, stored: StoredWeights | None) -> WeightsSize:
    """Its weights there; the files say nothing of a checkpoint that somebody has to make."""
    return weights_size(in_form(model, form), stored=None if form.needs_checkpoint else stored)


def forms_to_compare(model: ModelConfig, accelerator: Accelerator) -> tuple[Form, ...]:
    """As stored, and what an accelerator computes in; weights that are quantized already stay as they are."""
    as_stored = Form(argument=None, quantization=model.quantization)
    if model.quantization is not None:
        return (as_stored,)
    return (as_stored, *(_form(model, name) for name, runs in _COMPARED.items() if runs(accelerator)))


_COMPARED: dict[str, Callable[[Accelerator], bool]] = {
    "fp8": lambda kind: kind.flops_8bit is not None,
    "awq": lambda kind: kind.vendor == "nvidia",
    "modelopt_fp4": lambda kind: kind.vendor == "nvidia" and kind.flops_4bit is not None,
}
"""Forms by name, and the accelerators that have kernels for them."""


def _form(model: ModelConfig, argument: str) -> Form:
    form = read_form(model, argument)
    assert isinstance(form, Form)
    return form
