"""How does a process in a pod reach the API server without the official client?

By two variables and two files that Kubernetes gives to every pod. For the gateway, which must serve a
second after its start: importing the official client takes 0.5 s of processor time, this none.
"""

import os
import ssl
import time
from pathlib import Path

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_AGE_S = 60.0
"""The kubelet replaces the token's file long before the token expires."""


class PodAccount:
    """The service account of this pod."""

    def __init__(self, *, host: str, folder: Path) -> None:
        self.host = host
        """URL of the API server."""
        self.tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self._token_file = folder / "token"
        self._token = ""
        self._read_at_s = float("-inf")

    def authorization(self) -> str:
        """Value of the header that says who asks; the token is read again every minute."""
        now_s = time.monotonic()
        if now_s - self._read_at_s >= _TOKEN_AGE_S:
            self._token = self._token_file.read_text().strip()
            self._read_at_s = now_s
        return f"Bearer {self._token}"


def find() -> PodAccount | None:
    """The service account of this pod; None outside of a pod, or if the pod has no token."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{word}", "") for word in ("HOST", "PORT"))
    if not (host and port and (FOLDER / "token").is_file()):
        return None
    bracketed = f"[{host}]" if ":" in host else host
    return PodAccount(host=f"https://{bracketed}:{port}", folder=FOLDER)
