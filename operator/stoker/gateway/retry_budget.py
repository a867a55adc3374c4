"""May this request be sent again?

Retries help while one instance fails, and double the load when all do. So a service earns a fifth
of a retry with each request, and each retry spends one; over any stretch at most 20 % of the
requests and a reserve are retried. The reserve lets all requests of one dead instance go elsewhere
at once. A request is never sent again to an instance that failed it; who chooses sees to that.

Rejected: a share of the last seconds (a quiet service could then never retry its one request).
"""

_EARNED = 0.2
_RESERVE = 100.0


class RetryBudget:
    """Retries that one service may still make."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _RESERVE

    def earn(self) -> None:
        """A request came, which was not a retry."""
        left = self._left + _EARNED
        self._left = left if left < _RESERVE else _RESERVE

    def spend(self) -> bool:
        """Take one retry; False if there is none left."""
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
