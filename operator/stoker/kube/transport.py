"""How does one request get to the API server?

With the official client's connections and credentials where a `Configuration` says who we are, with
plain ones where the pod's service account does. The client (`client.py`) knows no difference.
"""

from typing import TYPE_CHECKING, Protocol

import aiohttp

from stoker.core.model import JsonObject
from stoker.kube.pod_account import PodAccount

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration

_READ_BUFFER = 2**21
"""Bytes; what the official client takes, as a watch's events are long."""


class Transport(Protocol):
    """A pool of connections to one API server."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str],
        body: JsonObject | None,
        timeout_s: float,
    ) -> aiohttp.ClientResponse:
        """Send it; `path` is with its query. The answer's body has not been read yet."""

    async def close(self) -> None:
        """Close the connections."""


def transport_for(access: "Configuration | PodAccount") -> Transport:
    """The transport for what `access.load` or `access.load_light` found."""
    return _OfPod(access) if isinstance(access, PodAccount) else _OfLibrary(access)


class _OfLibrary:
    def __init__(self, configuration: "Configuration") -> None:
        from kubernetes.aio.client import ApiClient

        self._api = ApiClient(configuration)

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str],
        body: JsonObject | None,
        timeout_s: float,
    ) -> aiohttp.ClientResponse:
        await self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = self._api.configuration.host + path
        answer = await self._api.rest_client.request(
            method, url, headers=headers, body=body, _request_timeout=aiohttp.ClientTimeout(total=timeout_s)
        )
        response: aiohttp.ClientResponse = answer.response
        return response

    async def close(self) -> None:
        await self._api.close()


class _OfPod:
    def __init__(self, account: PodAccount) -> None:
        self._account = account
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str],
        body: JsonObject | None,
        timeout_s: float,
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            # A watch keeps a connection, and there are two in each namespace: no limit. Without
            # `trust_env`, or aiohttp looks for proxies and passwords before each request.
            connector = aiohttp.TCPConnector(ssl=self._account.tls, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, read_bufsize=_READ_BUFFER)
        headers = headers | {"Authorization": self._account.authorization()}
        url = self._account.host + path
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        return await self._session.request(method, url, headers=headers, json=body, timeout=timeout)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
