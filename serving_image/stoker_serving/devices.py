"""How much memory do the accelerators of this instance have, as torch sees it?

The driver keeps some of it for itself, so it is less than what is printed on the box, and it is the
number that the engine multiplies with its utilization. The engine does not log it.

torch is asked in a process of its own (`ask_torch.py`), which ends at once:

- The supervisor must stay small and must never hold a device: torch is half a gigabyte of libraries.
- It starts when the engine serves. vLLM compares free memory before and after its profiling and takes
  what others did meanwhile for its own (or fails: "free memory grew"), and asks at its start whether
  its share is free; so nobody else may touch a device until both are over.
- Properties of a device need no context on it (`cudaGetDeviceProperties`, and torch's `CUDAHooks::init`
  before it), which would take some hundred MiB. This is read from the sources and was not measured on a
  GPU; were it otherwise, they would come for a second from the share that the engine leaves free.
- Its memory in the container counts towards the container's limit. It asks the kernel to end it first,
  and the engine never, where that is reached.

Rejected: `torch.cuda.mem_get_info` (makes a context); `nvidia-smi` and NVML (they count what the driver
keeps, and know one vendor only); a thread of the engine's server process (it must not initialise CUDA
before it has started its workers).
"""

import asyncio
import contextlib
import importlib.util
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from stoker_serving.reaper import Reaper

log = logging.getLogger(__name__)

_PATIENCE_S = 120.0
"""Importing torch takes seconds, and more where the engine keeps all processors busy."""
_NODES = Path("/sys/devices/system/node")


async def accelerator_bytes(reaper: Reaper, *, patience_s: float = _PATIENCE_S) -> int | None:
    """Memory of the smallest accelerator; None where torch sees none, or does not answer in time."""
    if importlib.util.find_spec("torch") is None:
        return None
    with os.fdopen(os.memfd_create("stoker-devices"), "w+b") as output:
        child = _ask_torch(output)
        ended = reaper.watch(child.pid)
        try:
            async with asyncio.timeout(patience_s):
                child.returncode = await asyncio.shield(ended)
        except TimeoutError:
            log.warning("torch did not say the memory of the devices within %.0f s", patience_s)
        finally:
            if child.returncode is None:
                os.kill(child.pid, signal.SIGKILL)
                child.returncode = -signal.SIGKILL
        output.seek(0)
        return _smallest(output.read())


def _ask_torch(output: IO[bytes]) -> "subprocess.Popen[bytes]":
    # -P: our modules do not stand in for others of the same name that torch may import.
    command = [sys.executable, "-P", str(Path(__file__).with_name("ask_torch.py"))]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL)


def _smallest(answer: bytes) -> int | None:
    try:
        return min((int(size) for size in json.loads(answer)), default=None)
    except (ValueError, TypeError):
        return None


def node_bytes(node: int, *, nodes: Path = _NODES) -> int:
    """Memory of a NUMA node, read as vLLM's CPU worker reads it: of the whole machine where the kernel
    tells of no nodes."""
    with contextlib.suppress(OSError):
        for line in (nodes / f"node{node}" / "meminfo").read_text().splitlines():
            words = line.split()  # Node 0 MemTotal: 97421888 kB
            if words[2:3] == ["MemTotal:"]:
                return int(words[3]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
