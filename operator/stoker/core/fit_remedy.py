"""What has to change? The end of the sentence that refuses a model.

Three ways out, each with its number: the largest context length on the accelerators that were asked for;
the argument that costs least, if one is enough; and the smallest accelerator that holds what was asked for.
"""

from stoker.core.capacity.estimate import CapacityEstimate
from stoker.core.capacity.remedy import levers, smallest
from stoker.core.fit_inputs import FitInputs


def remedy(estimate: CapacityEstimate, inputs: FitInputs) -> str:
    """What to change, for a model that does not fit.

    Example: `Set model.contextLength to 82,944 at most, or use 1 x nvidia-l40s, ...`
    """
    ways = []
    if estimate.max_context_length > 0:
        ways.append(f"set `model.contextLength` to {estimate.max_context_length:,} at most")
    found = levers(
        inputs.model,
        inputs.weights,
        accelerator=inputs.accelerator,
        settings=inputs.settings,
        correction=estimate.correction,
    )
    others = ("model.contextLength", "accelerator.count")  # they have words of their own here
    if lever := next((lever for lever in found if lever.field not in others), None):
        ways.append(f"set `{lever.field}` to {lever.value}")
    instead = smallest(
        inputs.model,
        inputs.weights,
        container=inputs.container,
        instead_of=inputs.accelerator,
        count=inputs.settings.ranks,
    )
    if instead:
        ways.append(f"use {instead}, the smallest in the catalogue that holds it")
    if not ways:
        return "Nothing in the catalogue holds it; quantize it or use a smaller model"
    sentence = ", or ".join(ways)
    return sentence[0].upper() + sentence[1:]
