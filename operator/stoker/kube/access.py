"""How to reach the API server, and as whom.

A kubeconfig when one is named (setting, or `KUBECONFIG`), else the service account of the pod.
The official client's loaders do the work, as exec plugins, OIDC and token files are theirs to know.
kopf logs in through here too (`controller/handlers.py`), so that there is one way to be someone.

Only in a pod, where a file holds the token, can it be had without them (`pod_account.py`): they cost
0.5 s of processor time to import, which is imported here when it is needed and not before.
"""

import os
import time
from typing import TYPE_CHECKING

from stoker.kube import pod_account
from stoker.kube.errors import FatalError
from stoker.kube.pod_account import PodAccount

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration

_TOKEN_AGE_S = 60.0
"""As long as the client trusts a service account's token file."""


async def load_light(kubeconfig: str | None) -> "Configuration | PodAccount":
    """The same as `load`, without the official client's imports where that is possible."""
    if not (kubeconfig or os.environ.get("KUBECONFIG")) and (account := pod_account.find()):
        return account
    return await load(kubeconfig)


async def load(kubeconfig: str | None) -> "Configuration":
    """Address and credentials. The token is read again every minute, as it is replaced before it expires."""
    from kubernetes.aio import config as loaders
    from kubernetes.aio.client import Configuration

    # Or aiohttp looks for proxies and passwords in two threads before each request. The proxy that
    # a kubeconfig names is used all the same.
    configuration = Configuration(client_session_kwargs={"trust_env": False})
    try:
        if path := kubeconfig or os.environ.get("KUBECONFIG"):
            await _read_kubeconfig(path, configuration)
        else:
            loaders.load_incluster_config(configuration)
    except (loaders.ConfigException, OSError) as error:
        raise FatalError(
            "looking for the cluster", f"{error} Run in a pod, or name a kubeconfig with --kubeconfig."
        ) from error
    return configuration


async def _read_kubeconfig(path: str, configuration: "Configuration") -> None:
    """Read it now, and again before a request when the token in it may be another one by then."""
    from kubernetes.aio import config as loaders

    read_at_s = time.monotonic()

    async def renew(configuration: "Configuration") -> None:
        nonlocal read_at_s
        if time.monotonic() - read_at_s >= _TOKEN_AGE_S:
            read_at_s = time.monotonic()
            await loaders.load_kube_config(path, client_configuration=configuration, persist_config=False)

    await loaders.load_kube_config(path, client_configuration=configuration, persist_config=False)
    configuration.refresh_api_key_hook = renew  # type: ignore[assignment]  # the library's guess is None


def pod_namespace() -> str | None:
    """Namespace that this process runs in; None outside of a pod."""
    path = pod_account.FOLDER / "namespace"
    return path.read_text().strip() if path.exists() else None
