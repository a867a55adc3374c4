"""How etcd, the API server, the controller-manager and the scheduler are started.

The settings are for tests on one machine: no fsync, no leader election, and a controller-manager
that is not held to its default of 20 requests per second (100 Deployments at once would wait
16 s for their pods).
"""

import socket
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.command import run, unanswered, wait_for, without_proxy
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import LOOPBACK, Layout
from e2e.cluster.pki import Authority
from e2e.cluster.processes import Processes
from e2e.cluster.programs import program

_READY_DEADLINE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Files that the processes of the control plane read."""

    ca: Path
    server: tuple[Path, Path]
    """Certificate and key of the API server."""
    kubelet_client: tuple[Path, Path]
    """Certificate and key with which the API server asks a kubelet for logs and exec."""
    service_accounts: tuple[Path, Path]
    """Public and private key of service-account tokens."""
    controller_manager: Path
    """Its kubeconfig."""
    scheduler: Path
    """Its kubeconfig."""


def issue_credentials(layout: Layout) -> Credentials:
    """Make what is missing of the certificates, and the kubeconfigs in the state folder."""
    authority = Authority(layout.state / "pki")
    names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
    addresses = {LOOPBACK, layout.address, layout.network.kubernetes_service_address}

    def kubeconfig(file: Path, name: str, subject: str) -> Path:
        if not file.exists():
            file.write_text(authority.kubeconfig(name, subject, server=layout.api_url))
        return file

    kubeconfig(layout.kubeconfig, "admin", "/O=system:masters/CN=admin")
    return Credentials(
        ca=authority.certificate,
        server=authority.issue(
            "kube-apiserver",
            "/CN=kube-apiserver",
            alt_names=[
                *(f"DNS:{name}" for name in names),
                *(f"IP:{address}" for address in sorted(addresses)),
            ],
        ),
        kubelet_client=authority.issue("kubelet-client", "/O=system:masters/CN=kube-apiserver"),
        service_accounts=authority.signing_key("service-accounts"),
        controller_manager=kubeconfig(
            layout.state / "controller-manager.kubeconfig",
            "controller-manager",
            "/CN=system:kube-controller-manager",
        ),
        scheduler=kubeconfig(layout.state / "scheduler.kubeconfig", "scheduler", "/CN=system:kube-scheduler"),
    )


def etcd_command(layout: Layout) -> list[str | Path]:
    """etcd with one member, on loopback without TLS."""
    clients, peers = (f"http://{LOOPBACK}:{port}" for port in (layout.etcd_port, layout.etcd_peer_port))
    return [
        program("etcd"),
        f"--data-dir={layout.state / 'etcd'}",
        *(f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}"),
        *(f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"),
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver_command(layout: Layout, credentials: Credentials) -> list[str | Path]:
    """The API server."""
    certificate, key = credentials.server
    kubelet_certificate, kubelet_key = credentials.kubelet_client
    public, private = credentials.service_accounts
    return [
        program("kube-apiserver"),
        f"--etcd-servers=http://{LOOPBACK}:{layout.etcd_port}",
        *(f"--bind-address={layout.address}", f"--secure-port={layout.api_port}"),
        f"--advertise-address={layout.address}",
        # A loopback address is no endpoint: a control plane alone has nobody to tell it to.
        *([] if layout.nodes else ["--endpoint-reconciler-type=none"]),
        f"--client-ca-file={credentials.ca}",
        *(f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"),
        *(f"--kubelet-client-certificate={kubelet_certificate}", f"--kubelet-client-key={kubelet_key}"),
        # Names of nodes resolve nowhere: exec, logs and port-forward need the address.
        "--kubelet-preferred-address-types=InternalIP",
        *(f"--service-account-key-file={public}", f"--service-account-signing-key-file={private}"),
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={layout.network.service_range}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--profiling=false",
    ]


def controller_manager_command(layout: Layout, credentials: Credentials) -> list[str | Path]:
    """The controller-manager; it serves nothing, so that several fit on one machine."""
    return [
        program("kube-controller-manager"),
        f"--kubeconfig={credentials.controller_manager}",
        f"--root-ca-file={credentials.ca}",
        f"--service-account-private-key-file={credentials.service_accounts[1]}",
        "--use-service-account-credentials",
        f"--service-cluster-ip-range={layout.network.service_range}",
        *("--kube-api-qps=300", "--kube-api-burst=500"),
        "--leader-elect=false",
        "--secure-port=0",
    ]


def scheduler_command(credentials: Credentials) -> list[str | Path]:
    """The scheduler; needed only where there are nodes."""
    return [
        program("kube-scheduler"),
        f"--kubeconfig={credentials.scheduler}",
        *("--kube-api-qps=300", "--kube-api-burst=500"),
        "--leader-elect=false",
        "--secure-port=0",
    ]


def start(layout: Layout, processes: Processes) -> None:
    """Start what doesn't run yet and wait until the API server is ready.

    Raises ClusterError when a port is taken, a process ends by itself or the deadline passes.
    """
    credentials = issue_credentials(layout)
    _start_server(processes, "etcd", etcd_command(layout), address=LOOPBACK, port=layout.etcd_port)
    wait_for("etcd", lambda: _etcd_missing(layout, processes), deadline_s=_READY_DEADLINE_S)
    _start_server(
        processes,
        "kube-apiserver",
        apiserver_command(layout, credentials),
        address=layout.address,
        port=layout.api_port,
    )
    wait_for("the API server", lambda: _api_missing(layout, processes), deadline_s=_READY_DEADLINE_S)
    processes.start("kube-controller-manager", controller_manager_command(layout, credentials))
    if layout.nodes:
        processes.start("kube-scheduler", scheduler_command(credentials))
    wait_for(
        "the controller-manager's first work (the service account `default`)",
        lambda: _account_missing(layout, processes),
        deadline_s=_READY_DEADLINE_S,
    )


def kubectl(layout: Layout, *words: str, stdin: str | None = None, deadline_s: float = 60) -> str:
    """Run kubectl as the cluster's administrator; returns its standard output."""
    return run(
        program("kubectl"),
        f"--kubeconfig={layout.kubeconfig}",
        *words,
        env=without_proxy(),
        stdin=stdin,
        deadline_s=deadline_s,
    )


def _start_server(
    processes: Processes, name: str, command: list[str | Path], *, address: str, port: int
) -> None:
    running = processes.get(name)
    if (running is None or not running.alive) and not _free(address, port):
        raise ClusterError(
            f"{name} needs {address}:{port}, which another program has: end that, or run `down`"
        )
    processes.start(name, command)


def _free(address: str, port: int) -> bool:
    try:
        socket.create_server((address, port)).close()
    except OSError:
        return False
    return True


def _etcd_missing(layout: Layout, processes: Processes) -> str | None:
    processes.check_alive("etcd")
    return unanswered(f"http://{LOOPBACK}:{layout.etcd_port}/health")


def _api_missing(layout: Layout, processes: Processes) -> str | None:
    processes.check_alive("kube-apiserver")
    try:
        kubectl(layout, "get", "--raw", "/readyz", deadline_s=10)
    except ClusterError as error:
        return str(error)
    return None


def _account_missing(layout: Layout, processes: Processes) -> str | None:
    processes.check_alive("kube-controller-manager")
    try:
        kubectl(layout, "get", "serviceaccount", "default", deadline_s=10)
    except ClusterError as error:
        return str(error)
    return None
