"""The answer for a person: the arithmetic to check by head, and what follows from it."""

import os
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stoker.cli.plan.answer import shown_lengths
from stoker.core.capacity.estimate import explain
from stoker.core.capacity.load import Load
from stoker.core.capacity.memory import GIB
from stoker.core.capacity.offer import Offer, Wanted
from stoker.core.capacity.throughput import Range

_WIDTH_WITHOUT_TERMINAL = 100
_BAR = 60
_PARTS = (
    ("weights", "█", "blue"),
    ("activation", "▓", "magenta"),
    ("non_torch", "▒", "yellow"),
    ("cuda_graphs", "▚", "yellow"),
    ("kv", "░", "green"),
    ("reserve", "·", "dim"),
)
"""Parts of the memory, each with its mark in the bar, so that it reads without colours too."""
_NAMES = {"non_torch": "non-torch", "cuda_graphs": "CUDA graphs", "kv": "KV cache"}


def print_offer(
    offer: Offer, *, wanted: Wanted, title: str, why_not: str | None, notes: Sequence[str]
) -> None:
    """All of one offer."""
    console = new_console()
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(_verdict(offer, why_not), soft_wrap=True)
    console.print()
    _print_memory(console, offer)
    _print_lengths(console, offer, wanted)
    if offer.full is not None:
        _print_speed(console, offer, wanted)
    if offer.staffing is not None and wanted.load is not None:
        _print_load(console, offer, wanted.load)
    _print_cost(console, offer)
    print_notes(console, notes)


def new_console() -> Console:
    """As wide as the terminal; wide enough for every table where there is none."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return Console(highlight=False)
    return Console(highlight=False, width=_WIDTH_WITHOUT_TERMINAL)


def print_notes(console: Console, notes: Sequence[str]) -> None:
    """What a reader must know beside the numbers."""
    for note in notes:
        console.print(Text(f"note: {note}", style="dim"))


def _verdict(offer: Offer, why_not: str | None) -> Text:
    capacity = offer.estimate
    if not capacity.fits:
        return Text(f"It does not fit: {why_not}.", style="red")
    held = f"It fits: {plural(capacity.requests, 'request')} of {capacity.context_length:,} tokens at once"
    if why_not is not None:
        return Text(f"{held}, but {why_not}.", style="yellow")
    return Text(f"{held}.", style="green")


def _print_memory(console: Console, offer: Offer) -> None:
    budget = offer.estimate.budget
    sizes = [(name, mark, style, max(getattr(budget, name), 0)) for name, mark, style in _PARTS]
    whole = max(budget.visible, sum(size for *_, size in sizes))
    console.print(f"Memory of each accelerator: {budget.visible / GIB:.2f} GiB that the driver reports")
    bar = Text()
    for _, mark, style, size in sizes:
        bar.append(mark * round(size / whole * _BAR), style=style)
    console.print(bar)
    table = Table.grid(padding=(0, 2))
    for name, mark, style, _ in sizes:
        if size := getattr(budget, name):
            table.add_row(Text(mark, style=style), _NAMES.get(name, name), f"{size / GIB:.2f} GiB")
    console.print(table)
    console.print(explain(offer.estimate), soft_wrap=True)
    console.print()


def _print_lengths(console: Console, offer: Offer, wanted: Wanted) -> None:
    capacity = offer.estimate
    table = Table(box=None, pad_edge=False)
    table.add_column("context", justify="right")
    table.add_column("requests at once", justify="right")
    table.add_column("")
    for length in shown_lengths(offer):
        at_once = capacity.concurrency_at(length)
        remark = "as planned" if length == capacity.context_length else ""
        if wanted.model.context_length is not None and length > wanted.model.context_length:
            remark = f"longer than the model was made for ({wanted.model.context_length:,})"
        elif at_once > offer.settings.max_num_seqs:
            remark = (
                f"{remark}{', ' if remark else ''}{offer.settings.max_num_seqs:,} run at once (max-num-seqs)"
            )
        table.add_row(f"{length:,}", _requests(at_once), remark)
    console.print(table)
    console.print(f"Largest context that fits: {capacity.max_context_length:,} tokens\n")


def _print_speed(console: Console, offer: Offer, wanted: Wanted) -> None:
    shape = wanted.shape
    named = {"alone": offer.alone, "at this load": offer.at_load, "all slots": offer.full}
    speeds = {speed.concurrency: (name, speed) for name, speed in named.items() if speed is not None}
    console.print(
        "Speed of one instance, estimated, for "
        f"{shape.prompt_tokens:,} tokens in and {shape.output_tokens:,} out"
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("requests at once")
    for concurrency, (name, _) in speeds.items():
        table.add_column(f"{concurrency:,}, {name}", justify="right")
    numbers = [speed.throughput for _, speed in speeds.values()]
    table.add_row("output tokens per second", *(span(n.output_tokens_per_s) for n in numbers))
    table.add_row("time to first token", *(span(n.time_to_first_token_s, seconds=True) for n in numbers))
    table.add_row("inter-token latency", *(span(n.inter_token_latency_s, seconds=True) for n in numbers))
    console.print(table)
    assert offer.full is not None
    console.print(Text(offer.full.throughput.why, style="dim"))
    console.print()


def _print_load(console: Console, offer: Offer, load: Load) -> None:
    needed = offer.staffing
    assert needed is not None
    objective = load.objective
    console.print(
        f"Load: {load.requests_per_s:g} requests per second, of which {objective.percent:g} % start "
        f"within {objective.within_s:g} s"
    )
    table = Table.grid(padding=(0, 2))
    table.add_row("a request holds its slot for", span(needed.service_time_s, seconds=True))
    table.add_row("slots at work", f"{span(needed.offered)} of {needed.slots:,} in each instance")
    table.add_row("replicas", span(needed.replicas))
    table.add_row(
        "least that keep up", f"{span(needed.least_stable)}; with fewer the queue grows without end"
    )
    table.add_row(
        "utilization",
        f"{needed.utilization:.0%} of the slots of {plural(int(needed.replicas.likely), 'replica')}",
    )
    console.print(table)
    console.print()


def _print_cost(console: Console, offer: Offer) -> None:
    cost = offer.cost
    if cost is None:
        if offer.accelerator.price is None:
            console.print(
                f"Cost: no price for {offer.accelerator.name}; give --price {offer.accelerator.name}=PRICE"
            )
        return
    price = cost.price
    source = f"{price.source}, {price.as_of}" if price.as_of else price.source
    what = "one instance" if offer.staffing is None else "all replicas"
    console.print(f"Cost, at {price.per_hour:.2f} {price.currency} for an accelerator and hour ({source})")
    table = Table.grid(padding=(0, 2))
    table.add_row(f"per hour, {what}", f"{money(cost.per_hour)} {price.currency}")
    table.add_row("per million output tokens", f"{money(cost.per_million_output_tokens)} {price.currency}")
    console.print(table)


def money(amount: Range) -> str:
    """A range of money.

    Example: 6 to 8, likely 6 -> `6.00 (6.00-8.00)`.
    """
    low, likely, high = (f"{each:,.2f}" for each in (amount.low, amount.likely, amount.high))
    return likely if low == high else f"{likely} ({low}-{high})"


def plural(number: int, noun: str) -> str:
    """Example: 1 -> `1 request`; 14 -> `14 requests`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def span(estimate: Range, *, seconds: bool = False) -> str:
    """A range with as many digits as an estimate has; likely first, as that is what one plans with.

    Example: 41 to 63, likely 52.4 -> `52 (41-63)`.
    """
    shown = _duration if seconds else _number
    likely, low, high = shown(estimate.likely), shown(estimate.low), shown(estimate.high)
    return likely if low == high else f"{likely} ({low}-{high})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def _duration(seconds: float) -> str:
    return f"{_number(seconds * 1000)} ms" if seconds < 1 else f"{_number(seconds)} s"


def _requests(at_once: float) -> str:
    """Whole requests; a tenth where one does not fit whole.

    Example: 57.9 -> `57`; 0.62 -> `0.62`.
    """
    return f"{int(at_once):,}" if at_once >= 1 or at_once == 0 else f"{at_once:.2f}"
