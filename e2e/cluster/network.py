"""How nodes reach each other: a bridge on this machine, a network namespace and a pod range for each.

Nodes know the way to each other's pods, so this machine forwards nothing and its own settings and
firewall stay as they are. It can reach nodes, pods and (through the first node) Services itself.
All of it hangs on the bridge and on the processes of the nodes, and goes with them.
"""

import json
from pathlib import Path

from e2e.cluster.addresses import MOST_NETWORKS, Network, Node
from e2e.cluster.command import run
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import Layout

_INTERFACES = Path("/sys/class/net")


def any_bridge() -> bool:
    """Whether a cluster with nodes is up on this machine."""
    return any(_exists(Network(number=number).bridge) for number in range(MOST_NETWORKS))


def create_bridge(layout: Layout) -> None:
    """Make the bridge that carries the API server's address.

    Raises ClusterError if another cluster took it while this one was down.
    """
    bridge = layout.network.bridge
    if not _exists(bridge):
        run("ip", "link", "add", bridge, "type", "bridge")
        run("ip", "link", "set", bridge, "alias", str(layout.state))
    elif (owner := _owner(bridge)) != str(layout.state):
        raise ClusterError(
            f"{bridge} belongs to {owner or 'another program'}: run `down`, and `up` takes another"
        )
    run("ip", "address", "replace", f"{layout.address}/24", "dev", bridge)
    run("ip", "link", "set", bridge, "up")


def remove_bridge(layout: Layout) -> None:
    """Remove the bridge if it is this cluster's; its address and routes go with it."""
    bridge = layout.network.bridge
    if _exists(bridge) and _owner(bridge) == str(layout.state):
        run("ip", "link", "delete", bridge)


def connect(node: Node, *, holder_pid: int) -> None:
    """Give the network namespace of a process the node's address, on a cable to the bridge."""
    if "eth0:" in Path(f"/proc/{holder_pid}/net/dev").read_text():
        return
    disconnect(node)
    run("ip", "link", "add", node.cable, "type", "veth", "peer", "name", "eth0", "netns", str(holder_pid))
    inside = ("nsenter", "-t", str(holder_pid), "--net", "ip")
    run(*inside, "address", "add", f"{node.address}/24", "dev", "eth0")
    run(*inside, "link", "set", "lo", "up")
    run(*inside, "link", "set", "eth0", "up")
    run("ip", "link", "set", node.cable, "master", node.network.bridge, "up")


def disconnect(node: Node) -> None:
    """Remove the cable of a node that ended. The kernel does so too, but some time later."""
    if _exists(node.cable):
        try:
            run("ip", "link", "delete", node.cable)
        except ClusterError:
            if _exists(node.cable):
                raise


def route(layout: Layout, holders: dict[Node, int]) -> None:
    """Show this machine and every node the way to every node's pods."""
    for node in holders:
        run("ip", "route", "replace", node.pod_range, "via", node.address)
    run("ip", "route", "replace", layout.network.service_range, "via", layout.node_list[0].address)
    for node, pid in holders.items():
        inside = ("nsenter", "-t", str(pid), "--net", "ip", "route", "replace")
        # Needed though nothing is out there: without it nothing on the node itself could reach a Service.
        run(*inside, "default", "via", layout.address)
        for other in holders:
            if other != node:
                run(*inside, other.pod_range, "via", other.address)


def _exists(interface: str) -> bool:
    return (_INTERFACES / interface).exists()


def _owner(bridge: str) -> str | None:
    """The state folder of the cluster that made a bridge."""
    (link,) = json.loads(run("ip", "-json", "link", "show", bridge))
    alias: str | None = link.get("ifalias")
    return alias
