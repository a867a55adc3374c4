"""Does the model fit into the accelerators of an instance, and what follows from that?

Three answers, and only one of them holds anything up:

    Fits        an estimate says so, or an engine that has started
    DoesNotFit  a certain estimate says that not even one request of the full context length fits; a
                revision that has no pods yet gets none, and what served before goes on
    Unknown     nothing certain can be said: no config, no row in the catalogue, an architecture that is
                not understood. It goes on, as the first instance that starts measures

An estimate that fails under an assumption ("taken for full attention") or with memory that nobody has
read is not certain. What an engine measured is above every estimate, and it corrects the next one that
is made from the same inputs.

Rejected: refusing by a margin, to be on the safe side. Whoever asks for the largest context length that
we name must get it.
"""

from dataclasses import dataclass, field

from stoker.api.reasons import ConditionType, Explained, Reason, Verdict
from stoker.core.capacity.estimate import CapacityEstimate, explain
from stoker.core.capacity_record import (
    Measured,
    estimated_record,
    is_measured,
    measured,
    measured_record,
    ratio_of,
)
from stoker.core.children import own_deployments
from stoker.core.conditions import FALSE, TRUE, UNKNOWN, find
from stoker.core.config import Config
from stoker.core.fit_inputs import FitInputs, fit_inputs, most_at_once
from stoker.core.fit_remedy import remedy
from stoker.core.model import Correction, JsonObject, ModelFacts, Observed, Refusal
from stoker.core.model_files import model_facts
from stoker.core.resources import named
from stoker.core.validation import ValidSpec

_BY_VALUE = {word.value: word for enum in (Reason, Verdict) for word in enum}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Whether the model of the revision that the spec asks for fits."""

    status: str
    """`True`, `False` or `Unknown`."""
    reason: Explained
    message: str
    capacity: JsonObject = field(default_factory=dict)
    """What `status.capacity` says of the revision; empty where nothing is known."""
    correction: Correction | None = None
    """What an engine measured, to be remembered for other estimates."""

    @property
    def refusal(self) -> Refusal | None:
        """Why no first pod may be made for it, or not yet; None where one may, or nothing is certain."""
        waits = self.reason is Reason.READING_CONFIG
        return Refusal(reason=self.reason, message=self.message) if self.status == FALSE or waits else None


def model_fit(observed: Observed, asked: ValidSpec | Refusal, *, config: Config) -> Fit:
    """The answer for what the spec asks for."""
    if isinstance(asked, Refusal):
        return _unknown(asked.reason, "the spec cannot be carried out as it is")
    name = observed.service["metadata"]["name"]
    before = observed.service.get("status", {}).get("capacity", {})
    facts = model_facts(observed, asked, config=config)
    inputs = fit_inputs(asked.spec, facts, service_name=name) if isinstance(facts, ModelFacts) else facts
    if found := measured(observed, revision=asked.revision):
        return _measured_fit(
            found,
            inputs if isinstance(inputs, FitInputs) else None,
            revision=asked.revision,
            most=most_at_once(asked.spec, service_name=name),
            before=before,
        )
    if is_measured(before, revision=asked.revision):
        return Fit(status=TRUE, reason=Reason.FITS, message=_sentence(before), capacity=before)
    if inputs is None:
        return _while_reading(observed, asked)
    if isinstance(inputs, Refusal):
        return _unknown(inputs.reason, inputs.message)
    return _estimated_fit(inputs, asked, observed)


def _measured_fit(
    found: Measured, inputs: FitInputs | None, *, revision: str, most: int | None, before: JsonObject
) -> Fit:
    ratio = ratio_of(found.smallest, inputs.estimate()) if inputs else None
    record = measured_record(
        found,
        revision=revision,
        estimate=inputs.estimate(correction=ratio or 1.0) if inputs else None,
        ratio=ratio,
        most=most,
        before=before,
    )
    is_news = found.whole and record != before
    correction = Correction(key=inputs.correction_key, ratio=ratio) if inputs and ratio and is_news else None
    return Fit(
        status=TRUE, reason=Reason.FITS, message=_sentence(record), capacity=record, correction=correction
    )


def _estimated_fit(inputs: FitInputs, asked: ValidSpec, observed: Observed) -> Fit:
    ratio = observed.corrections.get(inputs.correction_key)
    estimate = inputs.estimate(correction=ratio or 1.0)
    record = estimated_record(estimate, revision=asked.revision, ratio=ratio)
    notes = "".join(f" {note}" for note in dict.fromkeys((*estimate.notes, *inputs.doubts)))
    if estimate.fits:
        return Fit(status=TRUE, reason=Reason.FITS, message=f"{_sentence(record)}.{notes}", capacity=record)
    where = f"{asked.spec.accelerator.count} x {asked.spec.accelerator.type}"
    what = f"one request of {estimate.context_length:,} tokens"
    numbers = f"{what} does not fit on {where}: {explain(estimate)}."
    if not _is_certain(estimate, inputs):
        message = f"{numbers} That is not certain.{notes}"
        return Fit(status=UNKNOWN, reason=Reason.NOT_ESTIMATED, message=message, capacity=record)
    message = f"{numbers} {remedy(estimate, inputs)}.{notes}"
    return Fit(status=FALSE, reason=Verdict.DOES_NOT_FIT, message=message, capacity=record)


def _is_certain(estimate: CapacityEstimate, inputs: FitInputs) -> bool:
    """Whether an engine would certainly not start.

    What a model for pictures or sound takes while it runs is known badly: of one less than half of what
    is computed was read. So nothing is counted for it here.
    """
    if inputs.model.multimodal and estimate.budget.kv + estimate.budget.activation > 0:
        return False
    return not inputs.doubts


def _while_reading(observed: Observed, asked: ValidSpec) -> Fit:
    """What was said of the revision before, if it was: a new operator reads again what had failed."""
    before = observed.service.get("status", {})
    condition = find(before.get("conditions", []), ConditionType.MODEL_FITS)
    capacity = before.get("capacity", {})
    reason = _BY_VALUE.get(condition["reason"]) if condition else None
    if condition and reason and named(asked.revision, own_deployments(observed)):
        speaks_of_it = capacity.get("revision") == asked.revision
        if speaks_of_it or reason is Reason.CONFIG_UNREADABLE:
            return Fit(
                status=condition["status"],
                reason=reason,
                message=condition["message"],
                capacity=capacity if speaks_of_it else {},
            )
    return _unknown(Reason.READING_CONFIG, "the config of the model is being read")


def _sentence(capacity: JsonObject) -> str:
    requests, length = capacity.get("requestsPerInstance"), capacity.get("contextLength")
    if requests is None or length is None:
        return f"an instance has started: {capacity.get('arithmetic', '')}"
    plural = "" if requests == 1 else "s"
    return f"{requests} request{plural} of {length:,} tokens at once, as {capacity['source']}"


def _unknown(reason: Explained, message: str) -> Fit:
    return Fit(status=UNKNOWN, reason=reason, message=message)
