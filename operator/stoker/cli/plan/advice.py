"""`--advise`: compare, and print as asked."""

from dataclasses import replace

import click

from stoker.cli.plan.answer import choice_answer, rejected_answer
from stoker.cli.plan.options import Options
from stoker.cli.plan.output import print_document, print_manifest
from stoker.cli.plan.question import Question
from stoker.core.capacity.advise import READING_S, Choice, advise
from stoker.core.capacity.catalog import Accelerator
from stoker.core.capacity.container import settings_on
from stoker.core.capacity.engine_settings import EngineSettings
from stoker.core.model import Refusal


def compare(question: Question) -> bool:
    """Print the advice; whether anything holds what is wanted."""
    options, request = question.options, question.request
    wanted = replace(question.wanted, inter_token_s=request.inter_token_s or READING_S)
    form = question.form if question.form.argument else None

    def settings_for(kind: Accelerator, count: int) -> EngineSettings | Refusal:
        return settings_on(kind, request.container, count=count)

    advice = advise(wanted, accelerators=question.kinds, settings_for=settings_for, form=form)
    notes = [*wanted.model.unknown, f"Tokens come within {wanted.inter_token_s:g} s of each other."]
    if options.manifest:
        # One that needs another checkpoint could not be applied as it is.
        ready = [choice for choice in advice.choices if not choice.form.needs_checkpoint]
        if ready:
            print_manifest(question, _with_choice(options, ready[0]))
        else:
            click.echo(f"No accelerator of the catalogue holds {question.title} as it is.", err=True)
        return bool(ready)
    if options.output_format == "table":
        from stoker.cli.plan.advice_table import print_advice

        print_advice(advice, title=question.title, notes=notes)
    else:
        document = {
            "model": request.model,
            "choices": [choice_answer(choice) for choice in advice.choices],
            "rejected": [rejected_answer(choice) for choice in advice.rejected],
            "notes": notes,
        }
        print_document(document, options.output_format)
    return bool(advice.choices)


def _with_choice(options: Options, choice: Choice) -> Options:
    """The options that ask for a choice, with fewer requests at once where tokens would come too late."""
    made = choice.offer
    return replace(
        options,
        accelerator=choice.accelerator.name,
        count=choice.count,
        quantization=choice.form.argument,
        max_num_seqs=made.slots if made.slots < made.held else options.max_num_seqs,
    )
