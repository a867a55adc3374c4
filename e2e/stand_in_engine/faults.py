"""What the engine does wrong on command.

One document says all of it. `STAND_IN_FAULTS` gives it for the start (as an InferenceService can, in
`spec.engine.env`), `POST /faults` replaces it while the engine runs, `DELETE /faults` ends all of it.

Shares are met by counting, not by chance: with 0.25 every fourth request is hit, so a test can count.
"""

import dataclasses
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Crash(StrEnum):
    """Ways for the engine to end."""

    ENGINE_DEAD = "engine_dead"
    """As when vLLM's engine process dies: streams end with an error, health says 503, and the server
    ends a few seconds later, with exit code 0."""
    EXIT = "exit"
    """A traceback and exit code 1."""
    CUDA_OUT_OF_MEMORY = "cuda_out_of_memory"
    """The traceback of an accelerator that is full, and exit code 1."""
    MEMORY = "memory"
    """Takes memory until the kernel kills it for the limit of its container."""
    KILL = "kill"
    """Gone without a word, as by SIGKILL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Everything that can be wrong; the defaults are a healthy engine."""

    start_delay_s: float = 0.0
    """Loading the weights takes this much longer."""
    start_crash: Crash | None = None
    """It ends while it loads the weights."""
    crash_after_tokens: int | None = None
    """It ends when it has made this many more tokens, of all requests together."""
    crash: Crash = Crash.EXIT
    """How it ends then."""
    stall_after_tokens: int | None = None
    """After this many more tokens it makes no other one, while `/health` says 200."""
    hang: bool = False
    """Requests are taken and never answered, not even with a head."""
    refuse: bool = False
    """Streams are answered with 200 and an error event, as by a full queue; others with 503."""
    no_models: bool = False
    """`/health` says 200, `/v1/models` lists nothing, and no model is served."""
    health_delay_s: float = 0.0
    """`/health` takes this long."""
    reset_share: float = 0.0
    """Share of requests whose connection is reset."""
    error_share: float = 0.0
    """Share of requests answered with `error_status`."""
    error_status: int = 500
    wrong_content: bool = False
    """Answers are exclamation marks."""
    slow_factor: float = 1.0
    """Every step takes this many times as long."""


class BadFaults(ValueError):
    """The document cannot be understood; the text says what to change."""


def parse(document: str | bytes) -> Faults:
    """Read a document of faults; raises `BadFaults`.

    Example: `{"stall_after_tokens": 10}` -> ten more tokens, then none.
    """
    try:
        given = json.loads(document)
    except ValueError as error:
        raise BadFaults(f"faults must be a JSON object, but the text is no JSON: {error}") from error
    if not isinstance(given, dict):
        raise BadFaults(f"faults must be a JSON object, not {json.dumps(given)}")
    return Faults(**{name: _value(name, value) for name, value in given.items()})


def as_json(faults: Faults) -> dict[str, Any]:
    """The whole document, defaults included."""
    return dataclasses.asdict(faults)


class Share:
    """Says for each request whether it is one of a share of them, evenly spread."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due = 0.0

    def hit(self, share: float) -> bool:
        """Whether this request is hit. Example: 0.5 -> no, yes, no, yes."""
        self._due += share
        if self._due < 1:
            return False
        self._due -= 1
        return True


_TYPES = {field.name: field.type for field in dataclasses.fields(Faults)}


def _value(name: str, value: Any) -> Any:
    """The value of one field, if it is one that the field can have."""
    if name not in _TYPES:
        raise BadFaults(f"no such fault: {name}; there are {', '.join(_TYPES)}")
    type_ = _TYPES[name]
    if type_ is bool and isinstance(value, bool):
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if type_ is float and number and (value <= 1 or not name.endswith("_share")):
        return float(value)
    if type_ in (int, int | None) and number and isinstance(value, int):
        return value
    if type_ in (Crash, Crash | None) and value in tuple(Crash):
        return Crash(value)
    if value is None and type_ in (int | None, Crash | None):
        return None
    raise BadFaults(f"{name} cannot be {json.dumps(value)}: it takes {_words(name, type_)}")


def _words(name: str, type_: Any) -> str:
    if type_ in (Crash, Crash | None):
        return f"one of {', '.join(Crash)}"
    if type_ is bool:
        return "true or false"
    if name.endswith("_share"):
        return "a number from 0 to 1"
    return "a number from 0 on" if type_ is float else "a whole number from 0 on"
