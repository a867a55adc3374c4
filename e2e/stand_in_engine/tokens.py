"""Text as tokens and back, so that every answer can be foretold by a test.

A token is a run of up to eight characters of a word with the white space before it, which is near
the length of real ones. The answer to a prompt is its content, repeated.

Rejected: a real tokenizer (a dependency and a file for each model, to count tokens that no model
reads).
"""

import re
import zlib
from collections.abc import Iterable
from typing import Any

VOCABULARY = 32_000
MOST_CHARACTERS = 9
"""In one token: white space longer than one character is a token of its own."""
_PIECE = re.compile(r"\s?\S{1,8}|\s{1,9}")


def split(text: str) -> list[str]:
    """The tokens of a text, as text.

    Example: `hello wonderful world` -> `hello`, ` wonderfu`, `l`, ` world`.
    """
    return _PIECE.findall(text)


def count(prompt: "str | list[int]") -> int:
    """How many tokens a prompt has, given as text or as token ids."""
    return len(split(prompt) if isinstance(prompt, str) else prompt)


def ids(pieces: Iterable[str]) -> list[int]:
    """A number for each token, the same in every process."""
    return [zlib.crc32(piece.encode()) % VOCABULARY for piece in pieces]


def chat_text(messages: list[dict[str, Any]]) -> str:
    """A conversation as a chat template would lay it out, with the beginning of an answer."""
    said = "".join(f"{message.get('role', '')}: {content_of(message)}\n" for message in messages)
    return f"{said}assistant:"


def content_of(message: dict[str, Any]) -> str:
    """The text of a message, whose content may be a list of parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content if part.get("type") == "text")


class Answer:
    """The text that answers a prompt: its pieces, over and over."""

    __slots__ = ("_pieces",)

    def __init__(self, prompt: str) -> None:
        self._pieces = split(prompt.strip()) or ["nothing"]

    def text(self, start: int, stop: int) -> str:
        """The tokens `start` to `stop` of the answer, as text.

        Example: the prompt `hello world` answers `hello world hello world hello` in five tokens.
        """
        pieces, count = self._pieces, len(self._pieces)
        return "".join(
            f" {pieces[0]}" if at and at % count == 0 else pieces[at % count] for at in range(start, stop)
        )


class WrongAnswer(Answer):
    """What a model with broken numerics answers."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("!")

    def text(self, start: int, stop: int) -> str:
        """One exclamation mark for each token, as real engines print for token 0."""
        return "!" * (stop - start)
