"""What puts the file server into a cluster: its certificate, and the objects to apply."""

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster.addresses import CLUSTER_DOMAIN
from e2e.cluster.pki import Authority

IMAGE = "localhost/file-server:dev"
NAME = "file-server"
_PORT = 8443


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM texts."""

    authority: bytes
    """What a client must trust; key ``ca.crt`` of a credentials Secret."""
    certificate: bytes
    key: bytes


def make_tls(folder: Path, *, namespace: str) -> Tls:
    """A certificate for the server's names in a namespace; what ``folder`` holds already is kept."""
    hosts = (
        NAME,
        f"{NAME}.{namespace}",
        f"{NAME}.{namespace}.svc",
        f"{NAME}.{namespace}.svc.{CLUSTER_DOMAIN}",
    )
    authority = Authority(folder)
    certificate, key = authority.issue(
        f"{NAME}-{namespace}", f"/CN={NAME}", alt_names=[f"DNS:{host}" for host in hosts]
    )
    return Tls(
        authority=authority.certificate.read_bytes(),
        certificate=certificate.read_bytes(),
        key=key.read_bytes(),
    )


def url(path: str, *, namespace: str) -> str:
    """Address of a file or folder of the server, such as ``tiny`` or ``~status=403/tiny``."""
    return f"https://{NAME}.{namespace}.svc.{CLUSTER_DOMAIN}/{path}"


def manifests(tls: Tls, *, namespace: str) -> list[dict[str, Any]]:
    """Secret, Deployment and Service, within Pod Security ``restricted``."""
    labels = {"app.kubernetes.io/name": NAME}
    metadata = {"name": NAME, "namespace": namespace, "labels": labels}
    container = {
        "name": NAME,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "ports": [{"name": "https", "containerPort": _PORT}],
        "readinessProbe": {"tcpSocket": {"port": "https"}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "tls", "mountPath": "/tls", "readOnly": True}],
    }
    pod = {
        "automountServiceAccountToken": False,
        "containers": [container],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # Any change of the files is a new image; nothing is worth a slow end.
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "tls", "secret": {"secretName": NAME, "defaultMode": 0o440}}],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "type": "kubernetes.io/tls",
            "data": {
                "tls.crt": base64.b64encode(tls.certificate).decode(),
                "tls.key": base64.b64encode(tls.key).decode(),
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": labels, "ports": [{"name": "https", "port": 443, "targetPort": "https"}]},
        },
    ]
