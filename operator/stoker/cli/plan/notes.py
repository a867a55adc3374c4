"""What must a reader know beside the numbers?"""

from stoker.cli.plan.question import Question
from stoker.core.capacity.form import in_form
from stoker.core.capacity.offer import Offer
from stoker.core.capacity.remedy import levers, smallest


def notes(question: Question, made: Offer) -> list[str]:
    """Notes on one offer, one sentence each."""
    wanted, request, kind = question.wanted, question.request, made.accelerator
    found = list(made.estimate.notes)
    if not made.estimate.fits:
        found += _ways_out(question, made)
    if "--enable-lora" in request.container.args:
        found.append("The memory that adapters take is not counted.")
    found += made.form.doubts
    if made.slots < made.held:
        found.append(
            f"Only {made.slots:,} of {made.held:,} requests at once, as with more a token takes longer than "
            f"{wanted.inter_token_s:g} s; set --max-num-seqs {made.slots}."
        )
    if request.shape is None and made.full is not None:
        found.append(
            f"Speed is for requests of {wanted.shape.prompt_tokens:,} tokens in and "
            f"{wanted.shape.output_tokens:,} out; give --prompt and --output for yours."
        )
    if kind.price is None:
        found.append(f"There is no price for {kind.name}; give --price {kind.name}=PRICE.")
    return found


def _ways_out(question: Question, made: Offer) -> list[str]:
    """Changes of which each alone would make it fit, and what is large enough as it is."""
    model = in_form(question.wanted.model, made.form)
    ways = [
        f"It would fit with {lever.field} {lever.value}: {lever.estimate.requests:,} at once of "
        f"{lever.estimate.context_length:,} tokens."
        for lever in levers(model, made.weights, accelerator=made.accelerator, settings=made.settings)
    ]
    instead = smallest(
        model,
        made.weights,
        container=question.request.container,
        instead_of=made.accelerator,
        count=made.settings.ranks,
    )
    if instead:
        ways.append(f"{instead} is the smallest in the catalogue that holds it.")
    return ways
