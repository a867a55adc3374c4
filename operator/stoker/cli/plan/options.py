"""What did the person type? The options of `stoker plan`, and what is wrong with them by themselves.

Every refusal is one sentence with the option, its value and what to write instead.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click

from stoker.core.capacity.load import Load, RequestShape
from stoker.core.capacity.queueing import Objective, read_objective
from stoker.core.model import Refusal

DEFAULT_OBJECTIVE = Objective(within_s=2.0, percent=99.0)
"""The default of `scaling.objective`."""

_MOST_TOKENS = 100_000_000
_LIMITS: dict[str, tuple[str, float]] = {
    "count": ("--count", 16),
    "context": ("--context", _MOST_TOKENS),
    "max_num_seqs": ("--max-num-seqs", 100_000),
    "prompt": ("--prompt", _MOST_TOKENS),
    "output": ("--output", _MOST_TOKENS),
}
"""Whole numbers: their option and the most that the API, or any engine, takes."""
_MOST_REQUESTS_PER_S = 100_000
_MOST_PRICE = 1_000_000

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options, each None where it was not given."""

    model: str | None
    revision: str | None
    accelerator: str | None
    count: int | None
    context: int | None
    quantization: str | None
    kv_dtype: str | None
    max_num_seqs: int | None
    load: float | None
    prompt: int | None
    output: int | None
    objective: str | None
    advise: bool
    prices: tuple[str, ...]
    service_file: Path | None
    manifest: bool
    output_format: str

    def check(self) -> None:
        """Refuse numbers that nothing can have, and options that need another one."""
        for field, (option, most) in _LIMITS.items():
            value = getattr(self, field)
            if value is not None and not 1 <= value <= most:
                raise usage(f"{option} {value} is not between 1 and {most:,}; give a number in that range.")
        if self.load is not None and not 0 < self.load <= _MOST_REQUESTS_PER_S:
            raise usage(
                f"--load {self.load:g} is not a number of requests per second above 0 and up to "
                f"{_MOST_REQUESTS_PER_S:,}; give one in that range."
            )
        if self.model is None and self.service_file is None:
            raise usage("Nothing says which model; give --model, or -f with an InferenceService.")
        if self.accelerator is None and self.service_file is None and not self.advise:
            raise usage("Nothing says which accelerator; give --accelerator, or --advise to compare all.")
        if (self.prompt is None) != (self.output is None):
            given, missing = ("--prompt", "--output") if self.output is None else ("--output", "--prompt")
            raise usage(f"{given} says half of a typical request; give {missing} too.")
        if self.load is not None and self.prompt is None:
            raise usage("--load needs the length of a typical request; give --prompt and --output too.")
        if self.objective is not None and self.load is None:
            raise usage("--objective is about a load; give --load, --prompt and --output too.")

    @property
    def shape(self) -> RequestShape | None:
        """A typical request; None if nothing was said of it."""
        if self.prompt is None or self.output is None:
            return None
        return RequestShape(prompt_tokens=self.prompt, output_tokens=self.output)

    def wanted_load(self, *, otherwise: Objective) -> Load | None:
        """The load to find replicas for, with the objective of the service if no other is asked for."""
        objective = otherwise
        if self.objective is not None:
            objective = taken(read_objective(self.objective), where="--objective")
        if self.load is None or self.shape is None:
            return None
        return Load(requests_per_s=self.load, shape=self.shape, objective=objective)

    def own_prices(self) -> dict[str, float]:
        """Prices of one accelerator for one hour, by its name."""
        return dict(_price(text) for text in self.prices)


def taken(value: _T | Refusal, *, where: str) -> _T:
    """The value, or the sentence of its refusal as a usage error."""
    if isinstance(value, Refusal):
        end = "" if value.message.endswith((".", "?")) else "."
        raise usage(f"{where}: {value.message}{end}")
    return value


def usage(sentence: str) -> click.UsageError:
    """An error of the person who asks, in one sentence; exit status 2."""
    return click.UsageError(sentence)


def _price(text: str) -> tuple[str, float]:
    name, separator, amount = text.partition("=")
    try:
        price = float(amount)
    except ValueError:
        price = math.nan
    if not separator or not name or not 0 < price <= _MOST_PRICE:
        raise usage(
            f"--price {text} is not NAME=PRICE with a price above 0 and up to {_MOST_PRICE:,}; "
            "write it as nvidia-l40s=1.20."
        )
    return name, price
