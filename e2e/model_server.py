"""A model registry inside the cluster: the file server with the tiny model, and the Secret to trust it."""

from pathlib import Path
from typing import Any

from e2e.file_server import manifests
from e2e.target import Target

SECRET = "model-server"
_DEADLINE_S = 60


def start(target: Target, *, namespace: str, certificates: Path) -> None:
    """Start it in a namespace, and wait until it serves. `certificates` keeps its keys for the next time."""
    tls = manifests.make_tls(certificates, namespace=namespace)
    target.kubectl("apply", "--server-side", "-f", "-", stdin=manifests.manifests(tls, namespace=namespace))
    target.kubectl("apply", "--server-side", "-f", "-", stdin=credentials(tls, namespace=namespace))
    target.kubectl(
        *("rollout", "status", f"deployment/{manifests.NAME}", "-n", namespace),
        f"--timeout={_DEADLINE_S}s",
        deadline_s=_DEADLINE_S + 10,
    )


def credentials(tls: manifests.Tls, *, namespace: str) -> dict[str, Any]:
    """The Secret whose `ca.crt` lets `stoker fetch` trust the server."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": namespace},
        "stringData": {"ca.crt": tls.authority.decode()},
    }
