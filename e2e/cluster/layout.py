"""Where a cluster lives on this machine: folders, addresses and ports, fixed when it is first started."""

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.cluster.addresses import MOST_NETWORKS, MOST_NODES, Network, Node
from e2e.cluster.errors import ClusterError

STATES = Path("/var/tmp/stoker")
"""Survives a reboot, which /run does not."""
LOOPBACK = "127.0.0.1"

_FILE = "cluster.json"
_INTERFACES = Path("/sys/class/net")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One cluster. Its file in the state folder marks the folder as ours."""

    state: Path
    """The folder that holds everything of this cluster; ``down`` removes it."""
    nodes: int
    """How many nodes; 0 is a control plane alone, on loopback, without bridge or namespaces."""
    network_number: int
    api_port: int
    etcd_port: int
    etcd_peer_port: int

    @property
    def network(self) -> Network:
        """Its names and addresses on this machine."""
        return Network(number=self.network_number)

    @property
    def node_list(self) -> list[Node]:
        """Its nodes, the first first."""
        return [Node(network=self.network, number=number) for number in range(1, self.nodes + 1)]

    @property
    def address(self) -> str:
        """Where the API server listens."""
        return self.network.address if self.nodes else LOOPBACK

    @property
    def api_url(self) -> str:
        """Where clients find the API server."""
        return f"https://{self.address}:{self.api_port}"

    @property
    def kubeconfig(self) -> Path:
        """For the cluster's administrator; holds the certificates, so it can be copied."""
        return self.state / "admin.kubeconfig"

    @property
    def logs(self) -> Path:
        """One file for each process."""
        return self.state / "logs"

    def save(self) -> None:
        """Mark the state folder as this cluster's."""
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        fields = asdict(self) | {"state": str(self.state)}
        (self.state / _FILE).write_text(json.dumps(fields, indent=2) + "\n")


def default_state(*, control_plane_only: bool) -> Path:
    """``$STOKER_CLUSTER_STATE``, or a folder for each of the two sizes, so that both can run at once."""
    default = STATES / ("control-plane" if control_plane_only else "cluster")
    return Path(os.environ.get("STOKER_CLUSTER_STATE") or default).absolute()


def load(state: Path) -> Layout | None:
    """The cluster of a state folder, None if there is none. Raises ClusterError if it can't be read."""
    file = state / _FILE
    if not file.exists():
        return None
    fields = json.loads(file.read_text())
    if set(fields) != set(Layout.__slots__):
        raise ClusterError(f"{file} is from another version of this program: run `down` with that version")
    return Layout(**fields | {"state": state})


def plan(state: Path, *, nodes: int) -> Layout:
    """The layout for ``up``: that of the cluster in the folder, grown to ``nodes``, or a new one.

    A control plane alone takes free ports, so any number run side by side; one with nodes takes
    the first free number of a network. Raises ClusterError for what only ``down`` can do.
    """
    if not 0 <= nodes <= MOST_NODES:
        raise ClusterError(f"--nodes {nodes}: a cluster has between 1 and {MOST_NODES} nodes")
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
    etcd, etcd_peer, api = _free_ports(3)
    return Layout(
        state=state,
        nodes=nodes,
        network_number=_free_network() if nodes else 0,
        api_port=6443 if nodes else api,
        etcd_port=etcd,
        etcd_peer_port=etcd_peer,
    )


def _free_network() -> int:
    for number in range(MOST_NETWORKS):
        if not (_INTERFACES / Network(number=number).bridge).exists():
            return number
    raise ClusterError(f"{MOST_NETWORKS} clusters with nodes are up on this machine: run `down` for one")


def _free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody listens on now; all held at once, so all differ."""
    held = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    ports: list[int] = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports
