"""How nodes reach each other: a bridge on this machine, a network namespace and a pod range for each.

Nodes know the way to each other's pods, so this machine forwards nothing and its own settings and
firewall stay as they are. It can reach nodes, pods and (through the first node) Services itself.
All of it hangs on the bridge and on the processes of the nodes, and goes with them.
"""

import json
from pathlib import Path

from e2e.cluster.command import run
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import SERVICE_RANGE, Layout, Node

BRIDGE = "stoker0"


def create_bridge(layout: Layout) -> None:
    """Make the bridge that carries the API server's address.

    Raises ClusterError if it belongs to another cluster on this machine.
    """
    owner = _owner()
    if owner is None:
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "link", "set", BRIDGE, "alias", str(layout.state))
    elif owner != str(layout.state):
        raise ClusterError(
            f"a machine has room for one cluster with nodes, and that in {owner} is up: "
            f"use it, or end it with `down --state {owner}`"
        )
    run("ip", "address", "replace", f"{layout.address}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")


def remove_bridge(layout: Layout) -> None:
    """Remove the bridge if it is this cluster's; its address and routes go with it."""
    if _owner() == str(layout.state):
        run("ip", "link", "delete", BRIDGE)


def connect(node: Node, *, holder_pid: int) -> None:
    """Give the network namespace of a process the node's address, on a cable to the bridge."""
    if "eth0:" in Path(f"/proc/{holder_pid}/net/dev").read_text():
        return
    disconnect(node)
    cable = _cable(node)
    run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(holder_pid))
    inside = ("nsenter", "-t", str(holder_pid), "--net", "ip")
    run(*inside, "address", "add", f"{node.address}/24", "dev", "eth0")
    run(*inside, "link", "set", "lo", "up")
    run(*inside, "link", "set", "eth0", "up")
    run("ip", "link", "set", cable, "master", BRIDGE, "up")


def disconnect(node: Node) -> None:
    """Remove the cable of a node that ended. The kernel does so too, but some time later."""
    if (Path("/sys/class/net") / _cable(node)).exists():
        try:
            run("ip", "link", "delete", _cable(node))
        except ClusterError:
            if (Path("/sys/class/net") / _cable(node)).exists():
                raise


def route(layout: Layout, holders: dict[Node, int]) -> None:
    """Show this machine and every node the way to every node's pods."""
    for node in holders:
        run("ip", "route", "replace", node.pod_range, "via", node.address)
    first = min(holders, key=lambda node: node.number)
    run("ip", "route", "replace", SERVICE_RANGE, "via", first.address)
    for node, pid in holders.items():
        inside = ("nsenter", "-t", str(pid), "--net", "ip", "route", "replace")
        # Needed though nothing is out there: without it nothing on the node itself could reach a Service.
        run(*inside, "default", "via", layout.address)
        for other in holders:
            if other != node:
                run(*inside, other.pod_range, "via", other.address)


def _cable(node: Node) -> str:
    """The end of a node's cable that is plugged into the bridge."""
    return f"stoker-{node.number}"


def _owner() -> str | None:
    """The state folder of the cluster whose bridge is on this machine."""
    if not (Path("/sys/class/net") / BRIDGE).exists():
        return None
    (link,) = json.loads(run("ip", "-json", "link", "show", BRIDGE))
    return str(link.get("ifalias", "something that isn't this program"))
