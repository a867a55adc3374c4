"""The names and addresses of a cluster with nodes: all follow from its number on this machine.

Up to ten such clusters stand side by side, so a test run has its own beside the one of a demo.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath

MOST_NETWORKS = 10
MOST_NODES = 100
CLUSTER_DOMAIN = "cluster.local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What is one for each cluster."""

    number: int
    """0 for the first cluster on the machine."""

    @property
    def bridge(self) -> str:
        """The interface that joins nodes and this machine."""
        return f"stoker{self.number}"

    @property
    def address(self) -> str:
        """This machine's, on the bridge."""
        return f"10.250.{self.number}.1"

    @property
    def pod_range(self) -> str:
        """Every node has a /24 of it."""
        return f"10.{240 + self.number}.0.0/16"

    @property
    def service_range(self) -> str:
        """The addresses of Services."""
        return f"10.{96 + self.number}.0.0/16"

    @property
    def kubernetes_service_address(self) -> str:
        """Where pods find the API server: always the first of the range."""
        return f"10.{96 + self.number}.0.1"

    @property
    def dns_service_address(self) -> str:
        """Where pods find cluster DNS."""
        return f"10.{96 + self.number}.0.10"

    @property
    def cgroup(self) -> PurePosixPath:
        """The group of all nodes, below the root of every tree of control groups."""
        return PurePosixPath(self.bridge)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What is one for each node."""

    network: Network
    number: int
    """1 for the first."""

    @property
    def name(self) -> str:
        """In Kubernetes."""
        return f"node-{self.number}"

    @property
    def address(self) -> str:
        """On the bridge."""
        return f"10.250.{self.network.number}.{10 + self.number}"

    @property
    def pod_range(self) -> str:
        """The addresses of its pods."""
        return f"10.{240 + self.network.number}.{self.number}.0/24"

    @property
    def cable(self) -> str:
        """The end of its cable that is plugged into the bridge."""
        return f"{self.network.bridge}-{self.number}"

    @property
    def cgroup(self) -> PurePosixPath:
        """The group of all its processes."""
        return self.network.cgroup / self.name
