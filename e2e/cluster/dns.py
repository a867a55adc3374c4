"""Cluster DNS: CoreDNS as a process of this machine, behind the Service that kubelet tells pods.

There is no world outside: other names do not exist, at once, instead of timing out.
"""

import json

from e2e.cluster.addresses import CLUSTER_DOMAIN
from e2e.cluster.command import unanswered, wait_for
from e2e.cluster.control_plane import kubectl
from e2e.cluster.layout import Layout
from e2e.cluster.processes import Processes
from e2e.cluster.programs import program

_READY_DEADLINE_S = 30
_READY_PORT = 10054
_PORT = 10053
"""On the bridge's address; 53 is often taken on a desktop."""


def corefile(layout: Layout) -> str:
    """CoreDNS' configuration."""
    zones = (CLUSTER_DOMAIN, "in-addr.arpa", "ip6.arpa")
    return f"""\
{" ".join(f"{zone}:{_PORT}" for zone in zones)} {{
    bind {layout.address}
    errors
    ready {layout.address}:{_READY_PORT}
    kubernetes {" ".join(zones)} {{
        kubeconfig {layout.kubeconfig}
        ttl 5
    }}
}}
.:{_PORT} {{
    bind {layout.address}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def service(layout: Layout) -> str:
    """The Service without selector and its only endpoint, as manifests."""
    metadata = {"name": "kube-dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}}
    ports = [
        {"name": "dns", "protocol": "UDP", "port": 53, "targetPort": _PORT},
        {"name": "dns-tcp", "protocol": "TCP", "port": 53, "targetPort": _PORT},
    ]
    spec = {"clusterIP": layout.network.dns_service_address, "ports": ports}
    slice_metadata = metadata | {"labels": {"kubernetes.io/service-name": "kube-dns"}}
    items = [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": slice_metadata,
            "addressType": "IPv4",
            "endpoints": [{"addresses": [layout.address], "conditions": {"ready": True}}],
            "ports": [{"name": p["name"], "protocol": p["protocol"], "port": _PORT} for p in ports],
        },
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def start(layout: Layout, processes: Processes) -> None:
    """Start CoreDNS, point the Service at it, and wait until it knows the cluster's Services."""
    file = layout.state / "Corefile"
    file.write_text(corefile(layout))
    processes.start("coredns", [program("coredns"), "-conf", file], configured_by=[file])
    kubectl(layout, "apply", "--server-side", "-f", "-", stdin=service(layout))
    wait_for("cluster DNS", lambda: _missing(layout, processes), deadline_s=_READY_DEADLINE_S)


def _missing(layout: Layout, processes: Processes) -> str | None:
    processes.check_alive("coredns")
    return unanswered(f"http://{layout.address}:{_READY_PORT}/ready")
