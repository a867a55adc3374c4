"""Where a cluster lives on this machine: folders, addresses and ports, fixed when it is first started."""

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from e2e.cluster.errors import ClusterError

_FILE = "cluster.json"
_STATE = Path("/var/tmp/stoker")  # survives a reboot, which /run does not
_BRIDGE_ADDRESS = "10.250.0.1"
_MOST_NODES = 100

CGROUP = PurePosixPath("stoker")
"""The group of all nodes, below the root of every tree of control groups."""
CLUSTER_DOMAIN = "cluster.local"
SERVICE_RANGE = "10.96.0.0/16"
KUBERNETES_SERVICE_ADDRESS = "10.96.0.1"
DNS_SERVICE_ADDRESS = "10.96.0.10"
POD_RANGE = "10.244.0.0/16"
"""Every node has a /24 of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node: what follows from its number."""

    number: int
    """1 for the first."""

    @property
    def name(self) -> str:
        """In Kubernetes."""
        return f"node-{self.number}"

    @property
    def address(self) -> str:
        """On the bridge."""
        return f"10.250.0.{10 + self.number}"

    @property
    def pod_range(self) -> str:
        """The addresses of its pods."""
        return f"10.244.{self.number}.0/24"

    @property
    def cgroup(self) -> PurePosixPath:
        """The group of all its processes, below the root of every tree."""
        return CGROUP / self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One cluster. Its file in the state folder marks the folder as ours."""

    state: Path
    """The folder that holds everything of this cluster; ``down`` removes it."""
    nodes: int
    """How many nodes; 0 is a control plane alone, on loopback, without bridge or namespaces."""
    address: str
    """Where the API server listens."""
    api_port: int
    etcd_port: int
    etcd_peer_port: int

    @property
    def kubeconfig(self) -> Path:
        """For the cluster's administrator; holds the certificates, so it can be copied."""
        return self.state / "admin.kubeconfig"

    @property
    def logs(self) -> Path:
        """One file for each process."""
        return self.state / "logs"

    @property
    def api_url(self) -> str:
        """Where clients find the API server."""
        return f"https://{self.address}:{self.api_port}"

    @property
    def node_list(self) -> list[Node]:
        """Its nodes, the first first."""
        return [Node(number=number) for number in range(1, self.nodes + 1)]

    def save(self) -> None:
        """Mark the state folder as this cluster's."""
        self.state.mkdir(parents=True, exist_ok=True)
        fields = asdict(self) | {"state": str(self.state)}
        (self.state / _FILE).write_text(json.dumps(fields, indent=2) + "\n")


def default_state(*, control_plane_only: bool) -> Path:
    """``$STOKER_CLUSTER_STATE``, or a folder for each of the two sizes, so that both can run at once."""
    default = _STATE / ("control-plane" if control_plane_only else "cluster")
    return Path(os.environ.get("STOKER_CLUSTER_STATE") or default)


def load(state: Path) -> Layout | None:
    """The cluster of a state folder, None if there is none."""
    file = state / _FILE
    if not file.exists():
        return None
    fields = json.loads(file.read_text())
    return Layout(**fields | {"state": state})


def plan(state: Path, *, nodes: int) -> Layout:
    """The layout for ``up``: that of the cluster in the folder, grown to ``nodes``, or a new one.

    A control plane alone takes free ports, so any number run side by side. A cluster with nodes
    has fixed addresses: one for each machine. Raises ClusterError for what only ``down`` can do.
    """
    if not 0 <= nodes <= _MOST_NODES:
        raise ClusterError(f"--nodes {nodes}: a cluster has between 1 and {_MOST_NODES} nodes")
    found = load(state)
    if found is None:
        return _new(state, nodes=nodes)
    if (found.nodes == 0) != (nodes == 0):
        kind = "with nodes" if found.nodes else "without nodes"
        raise ClusterError(f"{state} holds a cluster {kind}: give another --state, or run `down` first")
    if nodes < found.nodes:
        raise ClusterError(f"{state} holds {found.nodes} nodes and {nodes} are wanted: run `down` first")
    return Layout(**asdict(found) | {"nodes": nodes})


def _new(state: Path, *, nodes: int) -> Layout:
    if nodes == 0:
        api, etcd, etcd_peer = _free_ports(3)
        address = "127.0.0.1"
    else:
        api, (etcd, etcd_peer) = 6443, _free_ports(2)
        address = _BRIDGE_ADDRESS
    return Layout(
        state=state, nodes=nodes, address=address, api_port=api, etcd_port=etcd, etcd_peer_port=etcd_peer
    )


def _free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody listens on now; all held at once, so all differ."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports
