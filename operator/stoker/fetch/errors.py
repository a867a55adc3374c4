"""How fetching weights can fail: for good, or for now.

`FetchError` is final and carries what a person needs: one of the termination classes, one sentence
with the address and what is wrong, and what to change. `Interrupted` means that asking again may
help; the code that asks decides how often and turns the last one into `WeightsUnreachable`.

Messages never hold a secret: addresses are shown without a query, because signed links and Azure's
access signatures put theirs there.
"""

import re

from stoker.api.reasons import TerminationClass

_QUERY = re.compile(r"(https?://[^\s?\"'<>]+)\?[^\s\"'<>)]*")


class FetchError(Exception):
    """A failure that asking again will not mend."""

    def __init__(self, reason: TerminationClass, message: str, *, fix: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        """One sentence: the address and what is wrong."""
        self.fix = fix or reason.what_to_do
        """What to change."""


class Interrupted(Exception):
    """A failure that may pass: a broken connection, a time-out, an overloaded source."""

    def __init__(self, cause: str, *, wait_s: float | None = None) -> None:
        super().__init__(cause)
        self.wait_s = wait_s
        """Seconds that the source asked us to wait (`Retry-After`); None if it said nothing."""


def without_queries(text: str) -> str:
    """The text of an error, with the query cut off each address in it.

    Example: `GET https://a.example/x?sig=SECRET failed` -> `GET https://a.example/x failed`.
    """
    return _QUERY.sub(r"\1", text)
