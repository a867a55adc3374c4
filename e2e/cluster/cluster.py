"""What ``up``, ``down`` and ``status`` do, for both sizes of cluster."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster import control_plane, programs
from e2e.cluster import layout as layouts
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import Layout
from e2e.cluster.processes import Processes
from e2e.cluster.progress import Progress


def up(state: Path, *, nodes: int) -> Layout:
    """Start the cluster of a state folder, or what of it doesn't run; 0 nodes is a control plane alone."""
    programs.build(programs.PROGRAMS if nodes else programs.CONTROL_PLANE)
    state.mkdir(parents=True, exist_ok=True)
    with _locked(state):
        layout = layouts.plan(state, nodes=nodes)
        layout.save()
        processes = Processes(state=state)
        progress = Progress(total=2)
        progress.step("start the control plane")
        control_plane.start(layout, processes)
        progress.step(f"ready: export KUBECONFIG={layout.kubeconfig}")
    return layout


def down(state: Path) -> None:
    """End the cluster of a state folder and remove all that it made. Nothing to do is no error."""
    if layouts.load(state) is None:
        return
    with _locked(state):
        processes = Processes(state=state)
        for name in processes.names():
            processes.stop(name)
        shutil.rmtree(state)


@contextlib.contextmanager
def _locked(state: Path) -> Iterator[None]:
    """Only one command at a time works on a cluster."""
    folder = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise ClusterError(f"another command works on the cluster in {state}: wait for its end") from error
    finally:
        os.close(folder)
