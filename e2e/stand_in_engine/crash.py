"""The ways the engine ends on command, each with the last words and the exit code of the real one."""

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from e2e.stand_in_engine.faults import Crash
from e2e.stand_in_engine.log import ENGINE_CORE, logger

_PIECE_BYTES = 32 * 2**20
_LARGEST_LIMIT_BYTES = 64 * 2**30
_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_LAST_WORDS = {
    Crash.EXIT: "RuntimeError: the stand-in engine crashed, as a fault told it to",
    Crash.CUDA_OUT_OF_MEMORY: (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 44.42 GiB of which 1.21 GiB is free. Including non-PyTorch memory, this process "
        "has 43.20 GiB memory in use."
    ),
}


def end(crash: Crash) -> NoReturn:
    """End this process, now. `ENGINE_DEAD` needs a running server and is not for here."""
    if crash is Crash.KILL:
        os.kill(os.getpid(), signal.SIGKILL)
    if crash is Crash.MEMORY:
        _take_memory()
    words = _LAST_WORDS[crash]
    log = logger(ENGINE_CORE)
    log.error("EngineCore encountered a fatal error.\nTraceback (most recent call last):\n%s", words)
    sys.stdout.flush()
    os._exit(1)


def _take_memory() -> NoReturn:
    """Take memory until the kernel ends this process, for the limit of its container.

    Raises `RuntimeError` where there is no limit, as then the node would run out of memory instead.
    """
    limit = _limit_bytes()
    if limit is None or limit > _LARGEST_LIMIT_BYTES:
        raise RuntimeError(
            "crash: memory needs a container with a memory limit of at most 64 GiB; "
            "set podTemplate.resources.limits.memory"
        )
    taken = []
    while True:
        taken.append(bytearray(os.urandom(1)) * _PIECE_BYTES)


def _limit_bytes() -> int | None:
    for path in _LIMIT_FILES:
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        return int(text) if text.isdecimal() else None
    return None
