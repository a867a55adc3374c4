"""What the kernel accounts to a proxy and its children: processor time and memory."""

import os
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_KIB = 1024


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for parent in found:
        for thread in Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in thread.read_text().split()]
    return found


def cpu_s(pid: int) -> float:
    """User and system time of a process and its children so far, in seconds (proc(5), stat 14 and 15)."""
    total = 0.0
    for one in family(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) * _TICK_S
    return total


def memory_bytes(pid: int) -> int:
    """Proportional set size of a process and its children; what they share counts once."""
    total = 0
    for one in family(pid):
        for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * _KIB
    return total
