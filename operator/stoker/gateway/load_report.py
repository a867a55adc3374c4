"""What load does this replica see, for the operator to add up?

On the admin port, once a second and at once when a request wakes a service at zero: a line of JSON
for each service and one that ends the report. Whatever only grows is sent as its total, so that a
report that is lost loses nothing: arrivals, ends, refusals, waits by bucket, first tokens. What goes
up and down is sent as it is: waiting, oldest wait, in flight by instance.

Each request of a service is waiting, on an instance, or over; so its arrivals are the sum of these
and need no counter on the data path.

Rejected: being asked once a second (the wake would wait for the next question); pushing to the
operator (each gateway would have to know who leads, and need rights to talk to it); differences
(a report that is lost would be lost for good).
"""

import asyncio
import contextlib
import json
import secrets
from collections.abc import Callable, Iterator
from typing import Final

from aiohttp import web

from stoker.gateway.accounting import Accounting, ServiceAccount
from stoker.gateway.histogram import QUEUE_S
from stoker.gateway.metrics import state_of
from stoker.gateway.table import RoutingTable, Service

CONTENT_TYPE: Final = "application/x-ndjson"
_EVERY_S = 1.0
_encode = json.JSONEncoder(separators=(",", ":")).encode


class LoadReports:
    """Streams the load of this replica to whoever asks on the admin port."""

    def __init__(self, accounting: Accounting, table: RoutingTable, *, clock: Callable[[], float]) -> None:
        self._accounting = accounting
        self._table = table
        self._clock = clock
        self._began_s = clock()
        self._process = secrets.token_hex(8)
        self._woken_s: dict[tuple[str, str], float] = {}
        self._at_once: set[asyncio.Event] = set()

    def wake(self, service: Service) -> None:
        """A request asks for a service at zero: say so at once."""
        self._woken_s[service.namespace, service.name] = self._clock()
        for event in self._at_once:
            event.set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Report until the reader leaves."""
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE})
        await response.prepare(request)
        at_once = asyncio.Event()
        self._at_once.add(at_once)
        try:
            with contextlib.suppress(ConnectionError):
                while True:
                    at_once.clear()
                    for line in self.lines():
                        await response.write(line)
                        await asyncio.sleep(0)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(at_once.wait(), _EVERY_S)
        finally:
            self._at_once.discard(at_once)
        return response

    def lines(self) -> Iterator[bytes]:
        """One report."""
        now_s = self._clock()
        services = list(self._table.services.items())
        self._woken_s = {key: s for key, s in self._woken_s.items() if key in self._table.services}
        for key, service in services:
            woken_s = self._woken_s.get(key) if service.state.zero else None
            load = _load(service, self._accounting.of(*key), now_s=now_s)
            load["wokenSecondsAgo"] = None if woken_s is None else now_s - woken_s
            yield _encode(load).encode() + b"\n"
        end = {
            "process": self._process,
            "ageSeconds": now_s - self._began_s,
            "services": len(services),
            "waitBounds": QUEUE_S,
        }
        yield _encode(end).encode() + b"\n"


def _load(service: Service, account: ServiceAccount, *, now_s: float) -> dict[str, object]:
    waiting = service.queue.queued
    departed = [i for i in service.departed.values() if i.in_flight]
    instances = [*service.instances.values(), *departed]
    return {
        "namespace": service.namespace,
        "name": service.name,
        "count": account.number,
        "arrived": account.ended + waiting + sum(i.in_flight for i in instances),
        "ended": account.ended,
        "refused": account.refused,
        "waiting": waiting,
        "oldestWaitSeconds": service.queue.oldest_wait_s(now_s),
        "revisions": [
            {
                "name": revision,
                "waits": t.queue_s.counts,
                "firstTokens": t.time_to_first_token_s.count,
                "firstTokenSeconds": t.time_to_first_token_s.total,
                "requests": t.request_s.count,
                "requestSeconds": t.request_s.total,
            }
            for revision, t in account.revisions.items()
        ],
        "instances": [
            {
                "name": i.name,
                "revision": i.revision,
                "inFlight": i.in_flight,
                "limit": i.limit,
                "state": state_of(i, now_s),
            }
            for i in instances
        ],
    }
