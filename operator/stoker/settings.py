"""What the operator is told at its start; everything it may be told is here.

Each setting is a flag of `stoker operator` and an environment variable: `resync_s` is
`--resync-seconds` and `STOKER_RESYNC_SECONDS`. The command and its help are made from this class
(`cli/options.py`), as the gateway's are from its own (`gateway/settings.py`).
"""

import secrets
import socket
from dataclasses import dataclass, field
from typing import Any

from stoker.core.config import Config
from stoker.kube import access


def setting(default: Any, meaning: str) -> Any:
    """A field whose meaning the command's help can show, which a docstring could not."""
    if callable(default):
        return field(default_factory=default, metadata={"help": meaning})
    return field(default=default, metadata={"help": meaning})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of `stoker operator`."""

    image: str = setting(
        "stoker:latest", "Image with this program; its `stoker fetch` brings the weights of an instance."
    )
    serving_image: str = setting(
        "stoker-serving:latest", "Serving image for accelerators, where a service names none."
    )
    serving_image_cpu: str = setting(
        "stoker-serving-cpu:latest", "Serving image for `accelerator.type: cpu`."
    )
    image_pull_policy: str = setting("IfNotPresent", "Pull policy of the containers of an instance.")
    image_pull_secrets: tuple[str, ...] = setting(
        (), "Pull secrets in the service's namespace, separated by commas."
    )
    allow_cluster_internal_sources: bool = setting(
        False, "Whether weights may come from private, loopback and cluster addresses."
    )
    read_credentials: bool = setting(
        True,
        "Whether the operator may read the Secret in `model.credentialsSecret`, to size the model.",
    )
    progress_deadline_s: float = setting(
        600.0, "Seconds without a Ready instance after which a new revision is called stalled."
    )

    gateway_url: str = setting(
        "", "Base URL of the gateway's API, for `status.url`. Empty: that of each service's own Service."
    )

    gateway_service: str = setting(
        "", "Service of the gateway, in this namespace, whose replicas say the load. Empty: there is none."
    )
    gateway_workers: int = setting(1, "Processes in each of its pods; their admin ports follow each other.")
    gateway_admin_port: int = setting(8080, "Admin port of the first of them.")

    watch_namespaces: tuple[str, ...] = setting((), "Namespaces to serve, separated by commas; all if empty.")
    namespace: str = setting(
        lambda: access.pod_namespace() or "default",
        "Namespace of the operator itself and of its Lease.",
    )
    identity: str = setting(
        # Never the same twice: two processes of one name would both believe to hold the Lease.
        lambda: f"{socket.gethostname()}_{secrets.token_hex(4)}",
        "Name of this replica in the Lease and in Events.",
    )
    lease_name: str = setting("stoker-operator", "Name of the Lease that the leading replica holds.")
    kubeconfig: str = setting("", "Kubeconfig to use instead of the pod's service account.")

    workers: int = setting(8, "Services that are reconciled at the same time.")
    resync_s: float = setting(
        300.0, "Seconds after which every service is looked at again even if nothing changed."
    )
    port: int = setting(8080, "Port of /healthz, /readyz and /metrics.")
    log_format: str = setting("text", "Log lines as `text` or as `json`.")
    log_level: str = setting("info", "Least level to log: debug, info, warning or error.")

    def config(self) -> Config:
        """The part that decisions depend on."""
        return Config(
            stoker_image=self.image,
            serving_image=self.serving_image,
            serving_image_cpu=self.serving_image_cpu,
            image_pull_policy=self.image_pull_policy,
            image_pull_secrets=self.image_pull_secrets,
            allow_cluster_internal_sources=self.allow_cluster_internal_sources,
            read_credentials=self.read_credentials,
            progress_deadline_s=self.progress_deadline_s,
            gateway_url=self.gateway_url,
        )
