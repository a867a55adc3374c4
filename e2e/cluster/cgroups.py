"""The control groups of a node: made before its kubelet starts, and the exact list of its processes.

Every process of a node, pods and shims included, is in ``/stoker/<node>``; so the end of a node
needs no guess about what belongs to it. Version 1 has a tree for each controller, version 2 one.
"""

import contextlib
import os
import signal
from pathlib import Path, PurePosixPath

from e2e.cluster.command import wait_for

_ROOT = Path("/sys/fs/cgroup")
_CONTROLLERS = "cgroup.controllers"
_KILL_DEADLINE_S = 30


def hierarchies() -> list[Path]:
    """Roots of the trees in which a node needs its groups."""
    if (_ROOT / _CONTROLLERS).exists():
        return [_ROOT]
    trees = (tree for tree in _ROOT.iterdir() if tree.is_dir() and not tree.is_symlink())
    # Beside the trees of version 1 there may be one of version 2, which kubelet then ignores.
    return sorted(tree for tree in trees if not (tree / _CONTROLLERS).exists())


def create(group: PurePosixPath) -> None:
    """Make a group, such as ``stoker/node-1``, and those above it, in every tree."""
    for tree in hierarchies():
        for step in reversed([group, *group.parents[:-1]]):
            (tree / step).mkdir(exist_ok=True)
            _hand_down(tree / step)


def add(group: PurePosixPath, pid: int) -> None:
    """Move a process into a group, in every tree. What it starts from now on is born there."""
    for tree in hierarchies():
        (tree / group / "cgroup.procs").write_text(str(pid))


def members(group: PurePosixPath) -> list[int]:
    """Process ids in a group and those below it."""
    pids: set[int] = set()
    for tree in hierarchies():
        for file in (tree / group).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):  # removed in between (ENOENT or ENODEV)
                pids.update(int(word) for word in file.read_text().split())
    return sorted(pids)


def remove(group: PurePosixPath) -> None:
    """Kill every process in a group, wait until all are gone, and remove the group."""
    wait_for(f"the end of all processes in {group}", lambda: _kill_all(group), deadline_s=_KILL_DEADLINE_S)
    for tree in hierarchies():
        top = tree / group
        if top.exists():
            inner = [folder for folder in top.rglob("*") if folder.is_dir()]
            for folder in sorted(inner, key=lambda one: len(one.parts), reverse=True):
                folder.rmdir()
            top.rmdir()


def _hand_down(group: Path) -> None:
    """Let a group use what the one above it may use."""
    for name in ("cpuset.cpus", "cpuset.mems"):  # version 1: empty at first, and then nothing can start
        file, above = group / name, group.parent / name
        if above.exists() and file.exists() and not file.read_text().strip():
            file.write_text(above.read_text())
    available = group.parent / _CONTROLLERS
    if available.exists():  # version 2: switched on level by level
        wanted = " ".join(f"+{controller}" for controller in available.read_text().split())
        (group.parent / "cgroup.subtree_control").write_text(wanted)


def _kill_all(group: PurePosixPath) -> str | None:
    pids = members(group)
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            # Asked again with the descriptor in hand: the id can't belong to another process now.
            if pid in members(group):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)
    return f"{len(pids)} left" if pids else None
