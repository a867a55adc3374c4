"""What the gateway is told at its start; everything it may be told is here.

Flags of `stoker gateway` and environment variables, as for the operator (`stoker/settings.py`). What
is about one service (its queue, its names) is in its `InferenceService` and nowhere else.
"""

from dataclasses import dataclass

from stoker.kube import access
from stoker.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of `stoker gateway`."""

    watch_namespaces: tuple[str, ...] = setting(
        (), "Namespaces whose services are served, separated by commas; all if empty."
    )
    namespace: str = setting(lambda: access.pod_namespace() or "default", "Namespace of the gateway itself.")
    service: str = setting(
        "",
        "Service of the gateway: its ready pods share the queues and the instances. "
        "Empty: this one takes all for itself.",
    )
    kubeconfig: str = setting("", "Kubeconfig to use instead of the pod's service account.")

    port: int = setting(8000, "Port of the API, without TLS.")
    tls_port: int = setting(8443, "Port of the API with TLS, if there is a certificate.")
    tls_certificate: str = setting(
        "", "File with the certificate chain, PEM; read again when it changes. Empty: no TLS."
    )
    tls_key: str = setting("", "File with the certificate's private key, PEM.")
    api_keys: str = setting(
        "", "Folder with the API keys, where their Secret is mounted. Empty: clients need no key."
    )
    admin_port: int = setting(
        8080, "Port of /healthz, /readyz and /metrics; each further worker has the next one."
    )
    workers: int = setting(
        1, "Processes that share the ports. Each has its own queues and its share of every bound."
    )

    drain_delay_s: float = setting(
        5.0,
        "Seconds for which new requests are still served after the order to stop, as some still come.",
    )
    drain_s: float = setting(300.0, "Seconds for which running requests may go on after that.")

    body_limit_bytes: int = setting(100_000_000, "The longest body of a request.")
    first_byte_timeout_s: float = setting(
        600.0, "Seconds after which an instance that has not begun to answer counts as hanging."
    )
    silence_timeout_s: float = setting(300.0, "Seconds between two pieces of an answer, at most.")
    keep_alive_s: float = setting(
        75.0,
        "Seconds for which a client's connection stays open without a request; "
        "more than a load balancer in front keeps its own.",
    )

    access_log: str = setting(
        "", "File that gets a line of JSON for each request; `-` is the standard output. Empty: none."
    )
    trace_endpoint: str = setting(
        "", "Base URL of an OpenTelemetry collector that takes OTLP over HTTP. Empty: no traces."
    )
    trace_ratio: float = setting(
        0.01, "Share of the traces that begin here that is recorded; for others their parent decides."
    )

    log_format: str = setting("text", "Log lines as `text` or as `json`.")
    log_level: str = setting("info", "Least level to log: debug, info, warning or error.")
