"""What did people publish about memory and speed, and what is computed for it? `make capacity-vectors`.

The same rows are tests (`tests/unit/core/capacity/`); here they are tables to read. It fails on no row.
"""

import click
from rich.console import Console
from rich.table import Table
from tests.unit.core.capacity.published_speeds import HOLD_OUT, READINGS
from tests.unit.core.capacity.test_throughput import in_range, of
from tests.unit.core.capacity.vectors import vectors

CONSOLE = Console(width=150, highlight=False)


def print_vectors():
    """KV caches and concurrency, as engines logged them."""
    rows = vectors()
    table = Table(title="KV cache: published against computed")
    for heading, justify in (("", "left"), ("published", "right"), ("computed", "right"), ("off", "right")):
        table.add_column(heading, justify=justify)
    table.add_column("source")
    for row in rows:
        off = abs(row.computed / row.published - 1) if row.published else abs(row.computed)
        table.add_row(row.name, f"{row.published:,.10g}", f"{row.computed:,.10g}", f"{off:.2%}", row.source)
    CONSOLE.print(table)
    held = sum(abs(row.computed - row.published) <= row.within for row in rows)
    exact = sum(row.within == 0 and row.computed == row.published for row in rows)
    CONSOLE.print(
        f"{held} of {len(rows)} within what their source allows, {exact} of them to the last digit\n"
    )


def print_speeds(title, readings):
    """Output tokens per second of one instance."""
    table = Table(title=title)
    for heading, justify in (
        ("", "left"),
        ("at once", "right"),
        ("in/out", "right"),
        ("published", "right"),
        ("likely", "right"),
        ("off", "right"),
        ("range", "right"),
        ("inside", "left"),
    ):
        table.add_column(heading, justify=justify)
    near = inside = 0
    for reading in readings:
        speed = of(reading).output_tokens_per_s
        off = speed.likely / reading.tokens_per_s - 1
        within = in_range(reading.tokens_per_s, speed)
        near += abs(off) <= 0.2
        inside += within
        table.add_row(
            f"{reading.row}: {reading.model} on {reading.count} x {reading.accelerator}",
            f"{reading.requests:g}",
            f"{reading.prompt:g}/{reading.output:g}",
            f"{reading.tokens_per_s:,.5g}",
            f"{speed.likely:,.0f}",
            f"{off:+.0%}",
            f"{speed.low:,.0f}-{speed.high:,.0f}",
            "yes" if within else "no",
        )
    CONSOLE.print(table)
    CONSOLE.print(f"{near} of {len(readings)} within 20 %, {inside} inside the range\n")


@click.command()
def main():
    """Print the tables."""
    print_vectors()
    print_speeds("Speed: the readings that the constants were set on", READINGS)
    print_speeds("Speed: readings that were found later", HOLD_OUT)


if __name__ == "__main__":
    main()
