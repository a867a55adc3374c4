"""Does the engine know these arguments? Answered before it starts, with the nearest one that exists.

vLLM needs 15 to 60 s of imports before it looks at its arguments, and then prints 150 lines of usage.
The image holds a list of what its engine's own parser takes (`engine_arguments` makes it at build),
so a typo ends the container at once with one sentence. What the list can't tell, such as the range of a
number, the engine still checks.

It follows vLLM's parser: `_` stands for `-` in a flag, `--flag.key` sets one key of a JSON flag,
`--flag=value` is one word, and the unique beginning of a flag is enough.
"""

import difflib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from stoker_serving.termination import Failure, Fatal, Reason

_MIDDLEWARE = "stoker_serving.middleware.Admission"
_QUIET_FLAG = "--disable-access-log-for-endpoints"
_QUIET_PATHS = "/health,/metrics"

_NUMBER = re.compile(r"-\.?\d")
_FIX = "Correct `engine.args` of the InferenceService."


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What one engine's parser takes."""

    engine: str
    """Name and version, for people."""
    flags: dict[str, tuple[str, ...]]
    """Every option string, with the only values it takes; no value listed means any."""

    @classmethod
    def load(cls, path: Path) -> "Known":
        """Reads the list of the image; raises OSError or ValueError if it is damaged."""
        document = json.loads(path.read_bytes())
        return cls(
            engine=document["engine"],
            flags={flag: tuple(choices) for flag, choices in document["flags"].items()},
        )


def check(arguments: list[str], known: Known) -> None:
    """Raises Fatal with `BadArguments` for the first argument that the engine would refuse."""
    for place, word in enumerate(arguments):
        if not word.startswith("-") or word == "-" or _NUMBER.match(word):
            continue
        flag, equals, value = word.partition("=")
        flag = _spelled(flag)
        option = _option(flag, known)
        if option is None:
            raise _bad(f"{known.engine} has no argument {flag}.", _nearest(flag, known.flags, "Did you mean"))
        if not equals and place + 1 < len(arguments):
            value = arguments[place + 1]
        choices = known.flags[option]
        if choices and "." not in flag and value not in choices:
            raise _bad(
                f"{known.engine} does not take {value!r} for {option}; it takes {', '.join(choices)}.",
                _nearest(value, choices, "Did you mean"),
            )


def added_to(arguments: list[str], known: Known | None) -> list[str]:
    """What the supervisor adds to the user's arguments: its middleware, and no line in the engine's log for
    each of its own questions, where the engine can be told so and the user does not say otherwise."""
    added = ["--middleware", _MIDDLEWARE]
    if known is not None and _QUIET_FLAG in known.flags and not value_of(arguments, _QUIET_FLAG):
        added += [_QUIET_FLAG, _QUIET_PATHS]
    return added


def value_of(arguments: list[str], flag: str) -> list[str]:
    """The words that follow the last `flag`, up to the next one; empty when it is not there.

    Example: (`--served-model-name chat chat-latest --port 8000`, `--served-model-name`)
    -> `[chat, chat-latest]`.
    """
    values: list[str] = []
    inside = False
    for word in arguments:
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            inside = _spelled(name) == flag
            if inside:
                values = [value] if equals else []
        elif inside:
            values.append(word)
    return values


def _spelled(flag: str) -> str:
    """The flag as the parser knows it: dashes before the first dot."""
    if not flag.startswith("--"):
        return flag
    name, dot, key = flag.partition(".")
    return name.replace("_", "-") + dot + key


def _option(flag: str, known: Known) -> str | None:
    name = flag.partition(".")[0]
    if name in known.flags:
        return name
    if not name.startswith("--"):
        # `-O3` and `-tp4`: a short flag with its value in the same word.
        return next((option for option in known.flags if _is_short(option) and name.startswith(option)), None)
    longer = [option for option in known.flags if option.startswith(name)]
    return longer[0] if len(longer) == 1 else None


def _is_short(option: str) -> bool:
    return not option.startswith("--")


def _nearest(word: str, choices: "dict[str, tuple[str, ...]] | tuple[str, ...]", question: str) -> str:
    close = difflib.get_close_matches(word, list(choices), n=1)
    return f"{question} {close[0]}? {_FIX}" if close else _FIX


def _bad(message: str, fix: str) -> Fatal:
    return Fatal(Failure(reason=Reason.BAD_ARGUMENTS, message=message, fix=fix))
