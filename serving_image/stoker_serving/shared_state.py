"""Numbers that the engine's processes and the supervisor see at the same time.

The engine may run several server processes, and its event loop may be busy for seconds. So nothing is
asked over a socket: each process writes its numbers into a page of shared memory, and the supervisor
reads them whenever it likes. The other way, one word says that this instance leaves, and one that new
requests are refused; both hold from the next request on.

The page is anonymous memory, opened by its path under `/proc`: it needs no folder, and a process that is
killed leaves nothing behind.

Every number is one aligned 64-bit word with one writer, so a reader never sees half of one. Times are
nanoseconds of the monotonic clock, which all processes of a machine share.

Rejected: private paths answered by the middleware (they wait for the busy loop, and reach only one of
several processes); a Unix socket (the same, from the other side); the engine's `/metrics` (no stream
counts, slow under load).
"""

import contextlib
import fcntl
import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path

PATH_VARIABLE = "STOKER_SHARED_STATE"
"""Environment variable that tells the engine's processes where the page is."""

_WORD_BYTES = 8
_REFUSING, _LIMIT, _LEAVING = range(3)
_HEADER_WORDS = 8
_PROCESSES = 64
_SLOT_WORDS = 8
_PID, _IN_FLIGHT, _LAST_TOKEN = range(3)
_SIZE_BYTES = (_HEADER_WORDS + _PROCESSES * _SLOT_WORDS) * _WORD_BYTES


class SharedState:
    """The page as the supervisor sees it, or as a process of the engine does before it has a slot."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._memory: int | None = None
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE_BYTES)
        self._words = memoryview(self._map).cast("Q")

    @classmethod
    def create(cls, *, max_requests: int | None = None) -> "SharedState":
        """Makes an empty page, which other processes open by its `path` until this one closes it;
        `max_requests` is the most in flight at once."""
        memory = os.memfd_create("stoker-state")
        os.ftruncate(memory, _SIZE_BYTES)
        state = cls(Path(f"/proc/{os.getpid()}/fd/{memory}"))
        state._memory = memory
        state._words[_LIMIT] = max_requests or 0
        return state

    def close(self) -> None:
        """Gives the memory back; the object is of no use afterwards."""
        self._words.release()
        self._map.close()
        if self._memory is not None:
            os.close(self._memory)

    @property
    def max_requests(self) -> int | None:
        """Most requests in flight at once; None means as many as come."""
        return self._words[_LIMIT] or None

    @property
    def leaving(self) -> bool:
        """Whether clients had better use another instance from their next request on."""
        return self._words[_LEAVING] != 0

    def leave(self) -> None:
        """Have every response from now on close its connection."""
        self._words[_LEAVING] = 1

    @property
    def refusing(self) -> bool:
        """Whether new requests are refused, because this instance leaves."""
        return self._words[_REFUSING] != 0

    def refuse(self) -> None:
        """Refuse every request that comes from now on."""
        self._words[_REFUSING] = 1

    @property
    def in_flight(self) -> int:
        """Requests that run now, in all processes."""
        return sum(self._words[start + _IN_FLIGHT] for start in self._slots())

    @property
    def last_token_ns(self) -> int:
        """When the engine last gave a client something, on the monotonic clock; 0 if never."""
        return max((self._words[start + _LAST_TOKEN] for start in self._slots()), default=0)

    def _slots(self) -> Iterator[int]:
        for number in range(_PROCESSES):
            start = _HEADER_WORDS + number * _SLOT_WORDS
            if self._words[start + _PID] == 0:
                return
            yield start

    def claim(self) -> "Slot":
        """Takes the next free slot for this process; raises RuntimeError when there is none."""
        with _locked(self.path):
            start = _HEADER_WORDS + len(list(self._slots())) * _SLOT_WORDS
            if start >= _HEADER_WORDS + _PROCESSES * _SLOT_WORDS:
                raise RuntimeError(f"more than {_PROCESSES} server processes: lower --api-server-count.")
            self._words[start + _PID] = os.getpid()
        return Slot(self._words, start)


class Slot:
    """The words of one process; nobody else writes them."""

    __slots__ = ("_start", "_words")

    def __init__(self, words: memoryview, start: int) -> None:
        self._words = words
        self._start = start

    def started(self) -> None:
        """One more request runs."""
        self._words[self._start + _IN_FLIGHT] += 1

    def finished(self) -> None:
        """One request less runs, however it ended."""
        self._words[self._start + _IN_FLIGHT] -= 1

    def token(self) -> None:
        """The engine gave a client something just now."""
        self._words[self._start + _LAST_TOKEN] = time.monotonic_ns()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
