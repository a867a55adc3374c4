"""What ``up``, ``down`` and ``status`` do, for both sizes of cluster."""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster import cgroups, control_plane, dns, host, network, programs
from e2e.cluster import layout as layouts
from e2e.cluster.command import wait_for
from e2e.cluster.control_plane import kubectl
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import Layout
from e2e.cluster.node import RunningNode, check_paths
from e2e.cluster.pause_image import write_pause_archive
from e2e.cluster.processes import Processes
from e2e.cluster.progress import Progress

_NODES_DEADLINE_S = 120
_KERNEL_SETTINGS = layouts.STATES / "kernel-settings-before.json"
"""Of the machine, so of all clusters: the first changes them, the last restores them."""


def up(state: Path, *, nodes: int) -> Layout:
    """Start the cluster of a state folder, or what of it doesn't run; 0 nodes is a control plane alone."""
    if nodes:
        host.check_root(why="nodes need network and mount namespaces (a control plane alone does not)")
        check_paths(state)
    host.install_missing(host.NODE_TOOLS if nodes else host.CONTROL_PLANE_TOOLS)
    programs.build(programs.PROGRAMS if nodes else programs.CONTROL_PLANE)
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(state):
        layout = layouts.plan(state, nodes=nodes)
        processes = Processes(state=state)
        progress = Progress(total=5 if nodes else 2)
        layout.save()
        if nodes:
            progress.step(f"bridge {layout.network.bridge}")
            host.change_kernel_settings(_KERNEL_SETTINGS)
            network.create_bridge(layout)
        progress.step(f"control plane at {layout.api_url}")
        control_plane.start(layout, processes)
        if nodes:
            _start_nodes(layout, processes, progress)
        progress.step(f"ready: export KUBECONFIG={layout.kubeconfig}")
    return layout


def down(state: Path) -> None:
    """End the cluster of a state folder and remove all that it made. Nothing to do is no error."""
    layout = layouts.load(state)
    if layout is None:
        return
    with locked(state):
        progress = Progress(total=layout.nodes + 2)
        for node in running_nodes(layout):
            progress.step(f"end {node.node.name}")
            node.stop()
        progress.step("end the control plane")
        Processes(state=state).kill_all()
        if layout.nodes:
            network.remove_bridge(layout)
            cgroups.remove(layout.network.cgroup)
            if not network.any_bridge():
                host.restore_kernel_settings(_KERNEL_SETTINGS)
        progress.step(f"remove {state}")
        shutil.rmtree(state)


def running_nodes(layout: Layout) -> list[RunningNode]:
    """The nodes of a cluster that is up."""
    processes = Processes(state=layout.state)
    return [RunningNode(node, layout=layout, processes=processes) for node in layout.node_list]


def _start_nodes(layout: Layout, processes: Processes, progress: Progress) -> None:
    progress.step(f"nodes: {', '.join(node.name for node in layout.node_list)}")
    pause = layout.state / "pause.tar"
    write_pause_archive(pause, program=programs.program("pause"))
    nodes = running_nodes(layout)
    network.route(layout, {one.node: one.start_holder() for one in nodes})
    for one in nodes:
        one.start_containerd()
        one.import_image(pause)
        one.start_kubernetes()
    progress.step("cluster DNS, and nodes Ready")
    dns.start(layout, processes)
    wait_for(f"{layout.nodes} nodes to be Ready", lambda: _not_ready(layout), deadline_s=_NODES_DEADLINE_S)


def _not_ready(layout: Layout) -> str | None:
    found = json.loads(kubectl(layout, "get", "nodes", "-o", "json"))["items"]
    ready = {
        node["metadata"]["name"]
        for node in found
        for condition in node["status"].get("conditions", [])
        if (condition["type"], condition["status"]) == ("Ready", "True")
    }
    missing = [node.name for node in layout.node_list if node.name not in ready]
    return f"not Ready: {', '.join(missing)} (logs in {layout.logs})" if missing else None


@contextlib.contextmanager
def locked(state: Path) -> Iterator[None]:
    """Only one command at a time works on a cluster."""
    folder = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ClusterError(
                f"another command works on the cluster in {state}: wait for its end"
            ) from error
        yield
    finally:
        os.close(folder)
