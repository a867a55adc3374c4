"""What the operator was told at its start and every decision may depend on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The part of the settings that decisions need; `stoker.settings` fills it."""

    stoker_image: str
    """Image with the `stoker` distribution; its `stoker fetch` is the init container of an instance."""
    serving_image: str
    """Serving image for accelerators, where a service names none."""
    serving_image_cpu: str
    """Serving image for `accelerator.type: cpu`."""
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    """Names of Secrets in the service's namespace."""
    allow_cluster_internal_sources: bool = False
    """Whether weights may come from link-local, loopback and private addresses and cluster names."""
    read_credentials: bool = True
    """Whether the operator itself may read the Secret in `model.credentialsSecret`."""
    progress_deadline_s: float = 600.0
    """A revision without a Ready instance for this long is said to be `Stalled`; it goes on trying."""
    gateway_url: str = ""
    """Base URL of the gateway's API, which every service's `status.url` says; empty if there is none."""
