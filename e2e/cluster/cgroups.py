"""The control groups of a node: made before its kubelet starts, and the exact list of its processes.

Every process of a node, pods and shims included, is in ``/stoker0/<node>``, so the end of a
node needs no guess about what belongs to it. Version 1 has a tree for each controller, version 2 one.
"""

import contextlib
import os
import signal
from pathlib import Path, PurePosixPath

from e2e.cluster.command import wait_for

_ROOT = Path("/sys/fs/cgroup")
_CONTROLLERS = "cgroup.controllers"
_KILL_DEADLINE_S = 30


def create(group: PurePosixPath) -> None:
    """Make a group, such as ``stoker0/node-1``, and those above it."""
    for tree in _managed_trees():
        for step in reversed([group, *group.parents[:-1]]):
            (tree / step).mkdir(exist_ok=True)
            _hand_down(tree / step)


def add(group: PurePosixPath, pid: int) -> None:
    """Move a process into a group. What it starts from now on is born there."""
    for tree in _managed_trees():
        (tree / group / "cgroup.procs").write_text(str(pid))


def members(group: PurePosixPath) -> list[int]:
    """Process ids in a group and those below it."""
    pids: set[int] = set()
    for tree in _trees():
        for file in (tree / group).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):  # removed in between (ENOENT or ENODEV)
                pids.update(int(word) for word in file.read_text().split())
    return sorted(pids)


def remove(group: PurePosixPath) -> None:
    """Kill every process in a group, wait until all are gone, and remove the group."""
    wait_for(f"the end of all processes in {group}", lambda: _kill_all(group), deadline_s=_KILL_DEADLINE_S)
    for tree in _trees():
        top = tree / group
        if top.exists():
            inner = [folder for folder in top.rglob("*") if folder.is_dir()]
            for folder in sorted(inner, key=lambda one: len(one.parts), reverse=True):
                folder.rmdir()
            top.rmdir()


def _trees() -> list[Path]:
    """Roots of all trees. Beside those of version 1 there may be one of version 2, which runc uses too."""
    if (_ROOT / _CONTROLLERS).exists():
        return [_ROOT]
    return sorted(tree for tree in _ROOT.iterdir() if tree.is_dir() and not tree.is_symlink())


def _managed_trees() -> list[Path]:
    """The trees in which kubelet expects the group of its node."""
    trees = _trees()
    return trees if trees == [_ROOT] else [tree for tree in trees if not (tree / _CONTROLLERS).exists()]


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


def _is_member(group: PurePosixPath, pid: int) -> bool:
    try:
        paths = [line.split(":", 2)[2] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(PurePosixPath(path).is_relative_to(f"/{group}") for path in paths)


def _kill_all(group: PurePosixPath) -> str | None:
    pids = members(group)
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            # Asked again with the descriptor in hand: the id can't go to another process now.
            if _is_member(group, pid):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)
    return f"{len(pids)} left" if pids else None
