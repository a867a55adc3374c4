"""How do several processes serve the same ports?

A small parent forks them; each opens the ports with SO_REUSEPORT, and the kernel deals out the
connections. They share nothing: each has its own table, queues and connections, and its share of every
bound. An order to stop goes to all. One that dies is replaced, as the streams of the others go on; one
that dies young takes all with it, as what is wrong then is likely wrong for all, and the supervisor of
the parent (the kubelet) knows how to wait before another try.

Rejected: one process that accepts and hands over connections (a hop for every byte, or passing file
descriptors); threads (one interpreter lock).
"""

import logging
import os
import signal
import sys
import time
from collections.abc import Callable

_YOUNG_S = 10.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)

_log = logging.getLogger(__name__)


class Workers:
    """The processes, as their parent knows them."""

    def __init__(self, count: int, work: Callable[[int], int]) -> None:
        """`work` is given the worker's number, from 0, and returns its exit status."""
        self._count = count
        self._work = work
        self._numbers: dict[int, tuple[int, float]] = {}
        """By process id, the worker's number and when it began, on the monotonic clock."""
        self._status: int | None = None
        """Exit status of the whole; None while it goes on."""

    def run(self) -> int:
        """Have them work until an order to stop, or until one can't; returns the exit status."""
        # Blocked, so that none is missed between two calls of `sigwait`.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        for number in range(self._count):
            self._start(number)
        while self._numbers:
            received = signal.sigwait(_SIGNALS)
            if received == signal.SIGCHLD:
                self._bury()
            else:
                self._stop(0)
        return self._status or 0

    def _start(self, number: int) -> None:
        pid = os.fork()
        if pid == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            status = 1
            try:
                status = self._work(number)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        self._numbers[pid] = (number, time.monotonic())

    def _bury(self) -> None:
        """Take note of all that have ended: one signal may stand for several."""
        for pid in list(self._numbers):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            number, began_s = self._numbers.pop(pid)
            if self._status is not None:
                continue
            _log.error(
                "a worker ended", extra={"worker": number, "status": os.waitstatus_to_exitcode(status)}
            )
            if time.monotonic() - began_s < _YOUNG_S:
                self._stop(1)
            else:
                self._start(number)

    def _stop(self, status: int) -> None:
        if self._status is None:
            self._status = status
        for pid in self._numbers:
            os.kill(pid, signal.SIGTERM)
