"""The engine as a child process: start, output, end.

Its output goes on to our own, unchanged, and a copy to `EngineLog`. A thread does the copying, so that
a log that nobody reads holds up the engine, as it would without us, and never the probes.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from stoker_serving.engine_log import EngineLog
from stoker_serving.reaper import Reaper

_READ_BYTES = 65536
_LAST_OUTPUT_S = 2.0
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_MEMORY_COUNTERS = (
    Path("/sys/fs/cgroup/memory.events"),  # cgroup v2
    Path("/sys/fs/cgroup/memory/memory.oom_control"),  # cgroup v1
)


class EngineProcess:
    """One run of the engine."""

    def __init__(self, command: list[str], environment: Mapping[str, str], *, reaper: Reaper) -> None:
        """Starts it, in a process group of its own; raises OSError if there is no such program."""
        self.log = EngineLog()
        self._buried = False
        self._kills_before = kills_for_memory()
        # The reaper collects it, so this object never learns that it ended: hence no `with`, no `wait`.
        self._child = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        self.exit_code = reaper.watch(self._child.pid)
        self._copier = threading.Thread(
            target=self._copy, args=(asyncio.get_running_loop(),), name="engine output", daemon=True
        )
        self._copier.start()

    def _copy(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._child.stdout is not None
        while output := os.read(self._child.stdout.fileno(), _READ_BYTES):
            sys.stdout.buffer.write(output)
            sys.stdout.buffer.flush()
            with contextlib.suppress(RuntimeError):  # the loop has closed: only our own output is left
                loop.call_soon_threadsafe(self.log.feed, output)

    @property
    def killed_for_memory(self) -> bool:
        """Whether the kernel has killed one of this container's processes since the engine started."""
        return kills_for_memory() > self._kills_before

    async def stop(self, *, patience_s: float) -> None:
        """Asks the engine to end, ends its whole process group after `patience_s`, and waits for its last
        words. For an engine that has ended by itself only what it left behind ends."""
        if self._buried:
            return
        if not self.exit_code.done():
            os.kill(self._child.pid, signal.SIGTERM)
            await asyncio.wait([self.exit_code], timeout=patience_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.returncode = await self.exit_code
        await asyncio.to_thread(self._copier.join, _LAST_OUTPUT_S)
        await asyncio.sleep(0)  # the copies that the thread has queued
        self._buried = True


def _end_with_parent() -> None:
    """The kernel kills the engine when the supervisor is killed, as in a container all go with PID 1."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def kills_for_memory(counters: Sequence[Path] = _MEMORY_COUNTERS) -> int:
    """How often the kernel has killed a process of this container for its memory limit.

    0 where the kernel's counter can't be read, such as outside of a container.
    """
    for path in counters:
        with contextlib.suppress(OSError):
            for line in path.read_text().splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
    return 0
