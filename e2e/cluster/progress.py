"""Which step of how many is running, and how long it has taken so far."""

import sys
import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Progress:
    """Numbered lines on standard error.

    Example: ``[3/9   42 s] build kubectl``
    """

    total: int
    """Steps that will be shown, known before the first one."""
    mark: str = ""
    """In front of each line; tells the steps of a whole from the steps within one of them."""
    _done: int = 0
    _started_at: float = field(default_factory=time.monotonic)

    def step(self, what: str) -> None:
        """Show the step that starts now."""
        self._done += 1
        elapsed_s = time.monotonic() - self._started_at
        width = len(str(self.total))
        where = f"{self.mark}[{self._done:{width}}/{self.total} {elapsed_s:4.0f} s]"
        print(where, what, file=sys.stderr, flush=True)
