"""Collects ended children, as the first process of a container must.

Every orphan in a container becomes a child of PID 1, and stays a zombie until PID 1 has asked how it
ended. asyncio's own child watcher asks for the children that it started only, so this one asks for all,
and tells whoever waits for one of them.
"""

import asyncio
import os
import signal


class Reaper:
    """One for the process; `watch` must follow the start of the child without an `await` between."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended: dict[int, asyncio.Future[int]] = {}
        self._loop.add_signal_handler(signal.SIGCHLD, self._collect)

    def watch(self, pid: int) -> "asyncio.Future[int]":
        """The exit code of a child, once it has ended; a negative one is a signal's number."""
        return self._ended.setdefault(pid, self._loop.create_future())

    def close(self) -> None:
        """Stops collecting."""
        self._loop.remove_signal_handler(signal.SIGCHLD)

    def _collect(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            ended = self._ended.pop(pid, None)
            if ended is not None and not ended.done():
                ended.set_result(os.waitstatus_to_exitcode(status))
