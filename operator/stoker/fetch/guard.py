"""May we open a connection to this address?

A user's URI is judged before anything happens (`core/sources.py`), but a harmless name can resolve
to the cloud's metadata service or to a Service of the cluster, and a harmless server can redirect
there. So every name is resolved here, every answer is judged, and the connection goes to the very
addresses that were judged: a second answer of the name server (DNS rebinding) is never asked for.

One internal address among several refuses the name: which of them is used would be chance.
"""

import ipaddress
import socket

from aiohttp.abc import ResolveResult
from aiohttp.resolver import ThreadedResolver

from stoker.api.reasons import TerminationClass
from stoker.core import sources
from stoker.fetch.errors import FetchError


class AddressGuard:
    """Judges hosts and addresses; with `allow_internal` it lets all pass."""

    def __init__(self, *, allow_internal: bool) -> None:
        self.allow_internal = allow_internal

    def check_host(self, host: str) -> None:
        """Raise `SourceNotAllowed` for a name or address that is internal by itself."""
        if self.allow_internal:
            return
        if (address := _as_address(host)) is not None:
            self._check_address(address, host=host)
        elif sources.is_cluster_name(host):
            raise _refused(host, "is a name inside the cluster or the site")

    def check_answer(self, host: str, answer: str) -> None:
        """Raise `SourceNotAllowed` if `answer`, which a name server gave for `host`, is internal."""
        address = _as_address(answer)
        if not self.allow_internal and address is not None:
            self._check_address(address, host=host)

    def _check_address(self, address: sources.IpAddress, *, host: str) -> None:
        if sources.is_internal_address(address):
            raise _refused(host, f"has the internal address {address}")


class GuardedResolver(ThreadedResolver):
    """The system's resolver; an answer that the guard refuses raises."""

    def __init__(self, guard: AddressGuard) -> None:
        super().__init__()
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Addresses of `host`; raises `FetchError` (SourceNotAllowed), or OSError if there are none."""
        self._guard.check_host(host)
        results = await super().resolve(host, port, family)
        for result in results:
            self._guard.check_answer(host, result["host"])
        return results


def _as_address(host: str) -> sources.IpAddress | None:
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def _refused(host: str, why: str) -> FetchError:
    return FetchError(
        TerminationClass.SOURCE_NOT_ALLOWED,
        f"{host} {why}, and Stoker does not fetch from there",
        fix="Use a public host, or allow cluster-internal sources in the operator's settings.",
    )
