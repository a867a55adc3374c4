"""What does a config say under a name, and is it of the right kind?

A `config.json` is written by people and by many programs: the same number has five names, whole
numbers come as `4096.0`, and `null` means that the default holds. All of that is read. A text where
a number belongs, a bool (which Python takes for 1), zero heads or a million layers are not: a sum
made of them would look like an answer.

`Unreadable` goes no further than `read_model_config`, which turns it into a `Refusal`. Rejected:
handing a refusal through every reader (each field would need a branch), and a schema library (it
knows one name for a field).
"""

from collections.abc import Mapping
from typing import Any

MOST_LAYERS = 2_000
MOST = 10**9
"""No size in a model is larger; it also keeps products of sizes small."""


class Unreadable(Exception):
    """One sentence: which field, what is wrong with it."""


class Fields:
    """The values of one JSON object."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def has(self, *names: str) -> bool:
        """Whether one of these names has a value."""
        return self._first(names) is not None

    def integer(self, *names: str, least: int = 1, most: int = MOST) -> int | None:
        """The whole number under the first of these names that has a value."""
        found = self._first(names)
        return None if found is None else _whole(found[0], found[1], least=least, most=most)

    def required(self, *names: str, what: str, most: int = MOST) -> int:
        """The same, of a field that nothing can stand in for."""
        value = self.integer(*names, most=most)
        if value is None:
            raise Unreadable(f"`{names[0]}` is missing ({what}); add it")
        return value

    def integers(self, *names: str) -> tuple[int, ...]:
        """The whole numbers of a list, empty if there is none."""
        found = self._first(names)
        if found is None or not isinstance(found[1], list):
            return ()
        return tuple(_whole(found[0], value, least=0, most=MOST) for value in found[1])

    def texts(self, *names: str) -> tuple[str, ...]:
        """The texts of a list, empty if there is none; what is no text is left out."""
        found = self._first(names)
        values = found[1] if found and isinstance(found[1], list) else []
        return tuple(value for value in values if isinstance(value, str))

    def text(self, *names: str) -> str:
        """The text under the first of these names, or an empty one."""
        found = self._first(names)
        return found[1] if found and isinstance(found[1], str) else ""

    def flag(self, *names: str, default: bool = False) -> bool:
        """True or false; anything else counts as the default."""
        found = self._first(names)
        return found[1] if found and isinstance(found[1], bool) else default

    def number(self, *names: str) -> float | None:
        """A positive number that need not be whole; anything else is none."""
        found = self._first(names)
        if found is None or isinstance(found[1], bool) or not isinstance(found[1], int | float):
            return None
        return float(found[1]) if 0 < found[1] <= MOST else None

    def inner(self, *names: str) -> "Fields":
        """The object under the first of these names, empty if there is none."""
        found = self._first(names)
        return Fields(found[1] if found and isinstance(found[1], dict) else {})

    def objects(self, name: str) -> tuple["Fields", ...]:
        """The objects of a list or of a mapping's values, empty if there are none."""
        value = self._values.get(name)
        members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return tuple(Fields(member) for member in members if isinstance(member, dict))

    def is_list(self, name: str) -> bool:
        """Whether a list stands under this name."""
        return isinstance(self._values.get(name), list)

    def _first(self, names: tuple[str, ...]) -> tuple[str, Any] | None:
        return next(((n, self._values[n]) for n in names if self._values.get(n) is not None), None)


def _whole(name: str, value: object, *, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable(f"`{name}` is {_shown(value)}, not a number")
    # Infinity and NaN, which Python's JSON reader lets through, are no whole numbers either.
    if isinstance(value, float) and not value.is_integer():
        raise Unreadable(f"`{name}` is {value}, not a whole number")
    if not least <= value <= most:
        raise Unreadable(f"`{name}` is {_shown(value)}, not between {least} and {most}")
    return int(value)


def _shown(value: object) -> str:
    """A value for a message, cut: it may be a whole file."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print an integer of more than 4,300 digits
        text = "a very large number"
    return text if len(text) <= 40 else f"{text[:37]}..."
