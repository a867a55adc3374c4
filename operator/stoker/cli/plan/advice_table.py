"""The advice for a person: what to take first, and why not the others."""

from collections.abc import Sequence
from itertools import groupby

from rich.table import Table
from rich.text import Text

from stoker.cli.plan.table import money, new_console, print_notes, span
from stoker.core.capacity.advise import Advice, Choice, Rejected

_SHOWN = 15
"""Rows of the ranking; all are in `-o json`."""


def print_advice(advice: Advice, *, title: str, notes: Sequence[str]) -> None:
    """The best number of each accelerator and form, and for those that hold in no number the reason."""
    console = new_console()
    console.print(Text(title, style="bold"), soft_wrap=True)
    best = _first_of_each(advice.choices)
    if best:
        console.print(_ranking(best[:_SHOWN]))
        currencies = {choice.offer.cost.price.currency for choice in best if choice.offer.cost}
        console.print(
            "Estimates: likely (from-to). Tokens/s are of one instance with all slots at work; costs, in "
            f"{' or '.join(sorted(currencies))}, per hour of all instances and per million output tokens.",
            style="dim",
        )
    else:
        console.print(Text("Nothing in the catalogue holds it.", style="red"))
    if any(choice.form.needs_checkpoint for choice in best[:_SHOWN]):
        console.print("* needs a checkpoint of the model in this form", style="dim")
    if left := len(advice.choices) - len(best[:_SHOWN]):
        console.print(f"{left} more in -o json, other numbers of the same accelerators too", style="dim")
    if rejected := _rejected(advice):
        console.print(Text("\nNot these", style="bold"))
        table = Table.grid(padding=(0, 2))
        for choice in rejected:
            table.add_row(*_name(choice), choice.reason)
        console.print(table)
    print_notes(console, notes)


def _ranking(choices: Sequence[Choice]) -> Table:
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    table.add_column("accelerators", no_wrap=True)
    table.add_column("weights", no_wrap=True)
    for heading in ("at once", "tokens/s", "replicas", "per hour", "per million"):
        table.add_column(heading, justify="right", no_wrap=True)
    for choice in choices:
        offer, cost = choice.offer, choice.offer.cost
        assert offer.full is not None
        table.add_row(
            *_name(choice),
            f"{offer.slots:,}",
            f"{offer.full.throughput.output_tokens_per_s.likely:,.0f}",
            span(offer.staffing.replicas) if offer.staffing else "",
            money(cost.per_hour) if cost else "no price",
            f"{cost.per_million_output_tokens.likely:,.2f}" if cost else "no price",
        )
    return table


def _name(choice: Choice | Rejected) -> tuple[str, str]:
    """Example: two H100 with fp8 weights -> `2 x nvidia-h100-80gb` and `fp8`."""
    form = choice.form
    made = f"{form.argument}{'*' if form.needs_checkpoint else ''}" if form.argument else "as stored"
    return f"{choice.count} x {choice.accelerator.name}", made


def _first_of_each(choices: Sequence[Choice]) -> list[Choice]:
    first: dict[tuple[str, str | None], Choice] = {}
    for choice in choices:
        first.setdefault((choice.accelerator.name, choice.form.argument), choice)
    return list(first.values())


def _rejected(advice: Advice) -> list[Rejected]:
    """For each accelerator and form that holds in no number, the largest number that was tried."""
    held = {(choice.accelerator.name, choice.form.argument) for choice in advice.choices}
    groups = groupby(advice.rejected, key=lambda choice: (choice.accelerator.name, choice.form.argument))
    return [list(choices)[-1] for key, choices in groups if key not in held]
