"""What would fit instead? The end of the sentence that refuses a model.

Ways out, each with its number: the largest context length on the accelerators that were asked for; the
argument that costs least, if one is enough; and the smallest accelerator of the catalogue that holds what
was asked for: by memory, with as many as were asked for first and more of them after that. Of the same
vendor if there is one, as an image of the engine is built for one. Rows whose memory nobody has read are
left out.
"""

from collections.abc import Iterator

from stoker.api.instance_spec import CPU
from stoker.api.spec import InferenceServiceSpec
from stoker.core.capacity.catalog import ACCELERATORS, Accelerator
from stoker.core.capacity.estimate import CapacityEstimate, Lever, levers
from stoker.core.fit_inputs import FitInputs, inputs_of
from stoker.core.model import Refusal

_COUNTS = (1, 2, 4, 8, 16)
"""Accelerators of one instance as people have them; the heads of most models can be split over them."""


def remedy(
    estimate: CapacityEstimate, spec: InferenceServiceSpec, inputs: FitInputs, *, service_name: str
) -> str:
    """What to change, for a model that does not fit.

    Example: `Set model.contextLength to 82,944 at most, or use 1 x nvidia-l40s, ...`
    """
    ways = []
    if estimate.max_context_length > 0:
        ways.append(f"set `model.contextLength` to {estimate.max_context_length:,} at most")
    if lever := _argument(estimate, inputs):
        ways.append(f"set `{lever.field}` to {lever.value}")
    if found := _smallest(spec, inputs, service_name=service_name):
        ways.append(f"use {found}, the smallest in the catalogue that holds it")
    if not ways:
        return "Nothing in the catalogue holds it; quantize it or use a smaller model"
    sentence = ", or ".join(ways)
    return sentence[0].upper() + sentence[1:]


def _argument(estimate: CapacityEstimate, inputs: FitInputs) -> Lever | None:
    """The change of the engine's arguments that costs least; the other ways have words of their own."""
    found = levers(
        inputs.model,
        inputs.weights,
        accelerator=inputs.accelerator,
        settings=inputs.settings,
        correction=estimate.correction,
    )
    others = ("model.contextLength", "accelerator.count")
    return next((lever for lever in found if lever.field not in others), None)


def _smallest(spec: InferenceServiceSpec, inputs: FitInputs, *, service_name: str) -> str | None:
    for count, row in _candidates(spec):
        accelerator = spec.accelerator.model_copy(update={"type": row.name, "count": count})
        there = inputs_of(
            spec.model_copy(update={"accelerator": accelerator}),
            model=inputs.model,
            weights=inputs.weights,
            service_name=service_name,
        )
        if not isinstance(there, Refusal) and there.estimate().fits:
            return f"{count} x {row.name}"
    return None


def _candidates(spec: InferenceServiceSpec) -> Iterator[tuple[int, Accelerator]]:
    """Counts and rows in the order in which they are tried."""
    asked = spec.accelerator
    vendor = asked.type.partition("-")[0]
    rows = [row for row in ACCELERATORS.values() if row.name != CPU and not row.estimated]
    for of_vendor in (True, False):
        for count in (asked.count, *(count for count in _COUNTS if count > asked.count)):
            for row in sorted(rows, key=lambda row: (row.visible_bytes, row.name)):
                if (row.vendor == vendor) == of_vendor and count <= row.per_node:
                    yield count, row
