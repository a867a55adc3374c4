"""What ``status`` shows: which processes run, how much memory they hold, whether nodes are Ready."""

import json
import os
from pathlib import Path

from e2e.cluster import layout as layouts
from e2e.cluster.control_plane import kubectl
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import Layout
from e2e.cluster.processes import Processes

_MIB = 1024 * 1024


def describe(state: Path) -> str:
    """The state of a cluster in a few lines. Raises ClusterError if there is none."""
    layout = layouts.load(state)
    if layout is None:
        raise ClusterError(f"no cluster in {state}: run `up`")
    processes = Processes(state=state)
    lines = [
        f"state       {state}",
        f"kubeconfig  {layout.kubeconfig}",
        f"API server  {layout.api_url}",
        "",
    ]
    total_bytes = 0
    for name in processes.names():
        process = processes.get(name)
        if process is not None and process.alive:
            used = resident_bytes(process.pid)
            total_bytes += used
            lines.append(f"{name:28} {process.pid:8} {used / _MIB:6.0f} MiB")
        else:
            lines.append(f"{name:28} ended by itself: see {layout.logs / name}.log, run `up` again")
    lines += [f"{'in all':28} {'':8} {total_bytes / _MIB:6.0f} MiB", "", *_nodes(layout)]
    return "\n".join(lines)


def resident_bytes(pid: int) -> int:
    """Memory that a process holds; 0 if it just ended."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def _nodes(layout: Layout) -> list[str]:
    try:
        found = json.loads(kubectl(layout, "get", "nodes", "-o", "json", deadline_s=10))["items"]
    except ClusterError as error:
        return [f"the API server does not answer: {error}"]
    lines = []
    for node in found:
        ready = next(
            (c["status"] for c in node["status"].get("conditions", []) if c["type"] == "Ready"), "Unknown"
        )
        lines.append(f"{node['metadata']['name']:28} Ready={ready}")
    return lines or ["no nodes: a control plane alone"]
