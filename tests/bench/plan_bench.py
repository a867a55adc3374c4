"""How fast does `stoker plan` answer? `make bench` runs it.

A process of its own for a config on this machine, from its start to its end: the least and the median of
several runs, its CPU time and, where `perf` counts them or `valgrind` simulates them, its instructions; and
the share of its imports. Nothing here passes or fails; it prints a table and writes
`build/bench/plan.json`.
"""

import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "tests/unit/core/capacity/configs/Qwen--Qwen2.5-7B-Instruct.json"
RUNS = 15
PLAN = ["-m", "stoker", "plan", "--model", str(CONFIG), "--accelerator", "nvidia-l40s"]
LOAD = ["--load", "5", "--prompt", "1000", "--output", "250"]
COMMANDS = {
    "table": PLAN,
    "json": [*PLAN, "-o", "json"],
    "json, with a load": [*PLAN, *LOAD, "-o", "json"],
    "advice, with a load": [*PLAN[:5], "--advise", *LOAD, "-o", "json"],
    "interpreter and `import click` alone": ["-c", "import click"],
}
COUNTERS = (
    (["perf", "stat", "-e", "instructions:u", "-x", ","], r"^(\d+),,instructions"),
    (["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"], r"I +refs: +([\d,]+)"),
)
"""What counts instructions, and how its count reads on standard error; the first that works is used."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
ENVIRONMENT.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its bytecode


def run(command):
    subprocess.run(command, check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def timed(arguments):
    """Wall and CPU milliseconds of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started_s = time.perf_counter()
    run([sys.executable, *arguments])
    wall_s = time.perf_counter() - started_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall_s * 1000, cpu_s * 1000


def instructions(arguments):
    """Instructions of one run, and what counted them; None where nothing can."""
    for counter, pattern in COUNTERS:
        if shutil.which(counter[0]) is None:
            continue
        done = subprocess.run(
            [*counter, sys.executable, *arguments],
            check=False,
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if found := re.search(pattern, done.stderr):
            return {"count": int(found[1].replace(",", "")), "counted_by": counter[0]}
    return None


def imports(arguments):
    """Milliseconds that the interpreter spends on imports, and the modules with most of it (cumulated)."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        check=True,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    rows = [
        [cell.strip() for cell in line.removeprefix("import time:").split("|")]
        for line in done.stderr.splitlines()
        if line.startswith("import time:") and "[us]" not in line
    ]
    most = sorted(rows, key=lambda row: int(row[1]), reverse=True)[:12]
    return {
        "all_ms": round(sum(int(own) for own, _, _ in rows) / 1000, 1),
        "most_ms": {module: int(cumulated) / 1000 for _, cumulated, module in most},
    }


def measure(arguments):
    """All figures of one command."""
    timed(arguments)  # the first run writes bytecode and warms the page cache
    wall, cpu = zip(*(timed(arguments) for _ in range(RUNS)), strict=True)
    return {
        "wall_least_ms": round(min(wall), 1),
        "wall_median_ms": round(statistics.median(wall), 1),
        "cpu_least_ms": round(min(cpu), 1),
        "cpu_median_ms": round(statistics.median(cpu), 1),
        "imports_ms": imports(arguments)["all_ms"],
        "instructions": instructions(arguments),
    }


@click.command()
@click.option("--to", default=ROOT / "build/bench/plan.json", type=click.Path(path_type=Path))
def main(to):
    """Measure and print."""
    figures = {name: measure(arguments) for name, arguments in COMMANDS.items()}
    table = Table(title=f"stoker plan for a config on this machine, {RUNS} runs")
    table.add_column("command")
    for heading in ("least ms", "median ms", "CPU ms", "imports ms", "million instructions"):
        table.add_column(heading, justify="right")
    for name, figure in figures.items():
        counted = figure["instructions"]
        table.add_row(
            name,
            f"{figure['wall_least_ms']:.0f}",
            f"{figure['wall_median_ms']:.0f}",
            f"{figure['cpu_median_ms']:.0f}",
            f"{figure['imports_ms']:.0f}",
            f"{counted['count'] / 1e6:,.0f} ({counted['counted_by']})" if counted else "not counted here",
        )
    Console(stderr=True, width=120).print(table)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(json.dumps({**figures, "imports": imports(PLAN)}, indent=2) + "\n")
    click.echo(f"wrote {to}")


if __name__ == "__main__":
    main()
