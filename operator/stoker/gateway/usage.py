"""How many tokens did a request take?

The engine says so at the end of its answer. Whatever the answer is (chat, completion, embedding,
response, score), its figures are an object under the key `usage`, and inside a JSON string the
quotes of that key would be escaped; so the bytes are searched, and only that object is decoded.

Rejected: decoding every event (1 us for each token, for one of them); estimating from the text
(wrong by a factor for other languages, and the engine knows).
"""

import json
import re
from typing import Any, NamedTuple

_KEY = re.compile(rb'"usage"\s*:\s*\{')
_LONGEST_BYTES = 4096
"""An object of figures is shorter than this."""
_CARRIED_BYTES = 32
"""The key may be cut by the end of a piece."""
_decoder = json.JSONDecoder()


class Usage(NamedTuple):
    """The engine's own figures; a tuple: a frozen dataclass takes ten times as long to make."""

    prompt_tokens: int
    cached_tokens: int
    """Those of the prompt tokens that came from the prefix cache."""
    completion_tokens: int


def has_usage(data: bytes) -> bool:
    """Whether there are figures in it."""
    return _KEY.search(data) is not None


def read_usage(data: bytes) -> Usage | None:
    """The last figures in it."""
    start = _find_last(data)
    return None if start < 0 else _decode(data[start : start + _LONGEST_BYTES])


def _find_last(data: bytes) -> int:
    """Where the last key is that has figures; -1 if there is none."""
    start = data.rfind(b'"usage"')
    while start >= 0 and _KEY.match(data, start) is None:
        start = data.rfind(b'"usage"', 0, start)
    return start


def _decode(data: bytes) -> Usage | None:
    """The figures behind the key that it begins with."""
    try:
        figures, _ = _decoder.raw_decode(data[data.index(b"{") :].decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    details = figures.get("prompt_tokens_details") or figures.get("input_tokens_details")
    return Usage(
        prompt_tokens=_count(figures, "prompt_tokens") or _count(figures, "input_tokens"),
        cached_tokens=_count(details, "cached_tokens") if isinstance(details, dict) else 0,
        completion_tokens=_count(figures, "completion_tokens") or _count(figures, "output_tokens"),
    )


def _count(figures: dict[str, Any], key: str) -> int:
    value = figures.get(key)
    return value if isinstance(value, int) and value > 0 else 0


class UsageSearch:
    """Finds the figures in an answer that comes in pieces, without keeping the answer."""

    __slots__ = ("_found", "_kept")

    def __init__(self) -> None:
        self._found = False
        self._kept = b""
        """From the last key on, else the end of what came."""

    def feed(self, piece: bytes) -> None:
        """The next piece of the answer."""
        data = self._kept + piece if self._kept else piece
        start = _find_last(data)
        self._found = start >= 0
        self._kept = data[start : start + _LONGEST_BYTES] if self._found else data[-_CARRIED_BYTES:]

    def result(self) -> Usage | None:
        """The figures; None if there were none."""
        return _decode(self._kept) if self._found else None
