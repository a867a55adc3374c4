"""From the options to an answer and its exit status: read, compute, print."""

from typing import Any

import click

from stoker.cli.plan.answer import answer
from stoker.cli.plan.notes import notes
from stoker.cli.plan.options import Options
from stoker.cli.plan.output import print_document, print_manifest
from stoker.cli.plan.question import Question, read_question
from stoker.core.capacity.offer import offer, problem

_FITS, _DOES_NOT_FIT = 0, 1


def run(**given: Any) -> int:
    """Answer what the options ask; the exit status."""
    question = read_question(Options(**given))
    if question.options.advise:
        from stoker.cli.plan.advice import compare

        found = compare(question)
    else:
        found = _plan(question)
    return _FITS if found else _DOES_NOT_FIT


def _plan(question: Question) -> bool:
    """One offer, for the accelerator that is named; whether it fits."""
    options, wanted = question.options, question.wanted
    made = offer(wanted, accelerator=question.kinds[0], settings=question.settings, form=question.form)
    why_not = problem(made, wanted)
    remarks = notes(question, made)
    if options.manifest and made.estimate.fits:
        print_manifest(question, options)
    elif options.manifest:
        click.echo(f"{question.title} does not fit: {why_not}.", err=True)
    elif options.output_format == "table":
        from stoker.cli.plan.table import print_offer

        print_offer(made, wanted=wanted, title=question.title, why_not=why_not, notes=remarks)
    else:
        reason = [] if why_not is None else [f"It does not hold what is asked for: {why_not}."]
        print_document(
            answer(made, model=question.request.model, notes=[*reason, *remarks]), options.output_format
        )
    return made.estimate.fits
