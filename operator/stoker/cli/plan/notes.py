"""What must a reader know beside the numbers?"""

from dataclasses import replace

from stoker.cli.plan.question import Question
from stoker.core.capacity.estimate import levers
from stoker.core.capacity.offer import Offer


def notes(question: Question, made: Offer) -> list[str]:
    """Notes on one offer, one sentence each."""
    wanted, request, kind = question.wanted, question.request, made.accelerator
    found = list(made.estimate.notes)
    if not made.estimate.fits:
        found += _ways_out(question, made)
    if "--enable-lora" in request.engine_args:
        found.append("The memory that adapters take is not counted.")
    if made.form.needs_checkpoint:
        found.append(
            f"These files are not in {made.form.argument}; it needs a checkpoint of the model in it."
        )
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
    """Changes of which each alone would make it fit."""
    model = replace(question.wanted.model, quantization=made.form.quantization)
    return [
        f"It would fit with {lever.field} {lever.value}: {lever.estimate.requests:,} at once of "
        f"{lever.estimate.context_length:,} tokens."
        for lever in levers(model, made.weights, accelerator=made.accelerator, settings=made.settings)
    ]
