"""Which accelerator, how many of it, and in which form of the weights, for the least money?

Every entry of the catalogue, alone and in the groups that a node holds, with the weights as stored and in
the forms that the accelerator computes in, is made an offer. Those that hold what is wanted are ranked by
money per hour for the whole load; without a known price they come after them, by the number of
accelerators. The others say in a sentence why not.

Rejected: ranking by money per token at a full batch, which favours hardware that the load never fills.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from stoker.core.capacity.catalog import COUNTS, Accelerator
from stoker.core.capacity.engine_settings import EngineSettings
from stoker.core.capacity.form import Form, forms_to_compare
from stoker.core.capacity.offer import Offer, Wanted, offer, problem
from stoker.core.model import Refusal

READING_S = 0.19
"""Longest time from one token to the next where none is promised: slower answers keep a reader waiting. 238
words a minute (M. Brysbaert, "How many words do we read per minute?", 2019) at four tokens for three words
are 5.3 tokens per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Hardware that holds what is wanted."""

    accelerator: Accelerator
    count: int
    """Accelerators of one instance."""
    form: Form
    offer: Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Hardware that does not."""

    accelerator: Accelerator
    count: int
    form: Form
    reason: str
    """Why it is not to be had, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """All that was compared."""

    choices: tuple[Choice, ...]
    """Best first: by money, then those without a price."""
    rejected: tuple[Rejected, ...]
    """In the order of the catalogue."""


def advise(
    wanted: Wanted,
    *,
    accelerators: Iterable[Accelerator],
    settings_for: Callable[[Accelerator, int], EngineSettings | Refusal],
    form: Form | None,
) -> Advice:
    """All choices for what is wanted; with a form only those in it."""
    compared = [
        _compare(wanted, accelerator, count, each_form, settings_for(accelerator, count))
        for accelerator in accelerators
        for each_form in ([form] if form else forms_to_compare(wanted.model, accelerator))
        for count in _counts(accelerator)
    ]
    choices = [row for row in compared if isinstance(row, Choice)]
    return Advice(
        choices=tuple(sorted(choices, key=_by_money)),
        rejected=tuple(row for row in compared if isinstance(row, Rejected)),
    )


def _counts(accelerator: Accelerator) -> list[int]:
    """As many as a node has; the engine does not split a model over processors."""
    most = 1 if accelerator.vendor == "cpu" else accelerator.per_node
    return [count for count in COUNTS if count <= most]


def _compare(
    wanted: Wanted,
    accelerator: Accelerator,
    count: int,
    form: Form,
    settings: EngineSettings | Refusal,
) -> Choice | Rejected:
    """One row."""
    if isinstance(settings, Refusal):
        return Rejected(accelerator=accelerator, count=count, form=form, reason=settings.message)
    made = offer(wanted, accelerator=accelerator, settings=settings, form=form)
    if (reason := problem(made, wanted)) is not None:
        return Rejected(accelerator=accelerator, count=count, form=form, reason=reason)
    return Choice(accelerator=accelerator, count=count, form=form, offer=made)


def _by_money(choice: Choice) -> tuple[bool, float, float]:
    """Rows with a price first; the same money is better spent on fewer accelerators."""
    cost, needed = choice.offer.cost, choice.offer.staffing
    accelerators = choice.count * (needed.replicas.likely if needed else 1)
    return cost is None, cost.per_hour.likely if cost else 0, accelerators
