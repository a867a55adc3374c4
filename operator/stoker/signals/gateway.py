"""What load do the gateway's replicas see?

One connection to each replica, on which it reports once a second (`stoker.gateway.load_report`).
`load` adds up what was heard in the last seconds. A replica that exists and was not heard is counted
as silent, and what it said before is not used any more: old numbers look like knowledge.

What only grows is added up over all reports (`gateway_totals`), so that it goes on growing when replicas
restart or leave.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import aiohttp
from aiohttp.http import HttpProcessingError

from stoker.core.load import InstanceLoad, ReplicaLoad, ServiceLoad, TotalKey, Totals, add_up
from stoker.core.model import JsonObject
from stoker.signals.gateway_totals import GatewayTotals, ServiceKey

STALE_S = 5.0
"""A replica that said nothing for so long is silent."""
_CONNECT_S = 2.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 5.0
_LONGEST_LINE_BYTES = 1024 * 1024
"""A service with 10,000 instances is about as long."""

_UNUSABLE = (
    *(aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError),
    *(ValueError, LookupError, TypeError, AttributeError),
)
"""What a replica that is away, or that says something else than a report, makes of reading it."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Replica:
    """One replica, by its address."""

    task: asyncio.Task[None] | None = None
    heard_s: float = float("-inf")
    """When its last whole report came, on the monotonic clock."""
    loads: Mapping[ServiceKey, ReplicaLoad] = field(default_factory=dict)


class GatewayLoads:
    """Reads all replicas, and adds up what they say."""

    def __init__(self, session: aiohttp.ClientSession, *, clock: Callable[[], float]) -> None:
        self._session = session
        self._clock = clock
        self._replicas: dict[str, _Replica] = {}
        self._totals = GatewayTotals(began_s=clock())

    def follow(self, addresses: Iterable[str]) -> None:
        """Read these replicas from now on (`host:port` of their admin ports), and no others."""
        wanted = set(addresses)
        for address in self._replicas.keys() - wanted:
            _stop(self._replicas.pop(address))
        for address in wanted - self._replicas.keys():
            replica = self._replicas[address] = _Replica()
            replica.task = asyncio.create_task(self._read(address, replica))

    def close(self) -> None:
        """Stop reading."""
        self.follow(())

    def load(self, key: ServiceKey) -> ServiceLoad | None:
        """The load of a service; None if no replica that is heard knows it."""
        heard = [r for r in self._replicas.values() if self._is_heard(r)]
        loads = [r.loads[key] for r in heard if key in r.loads]
        if not loads:
            return None
        return add_up(loads, silent=len(self._replicas) - len(heard), totals=self._totals.of(key))

    def services(self) -> set[ServiceKey]:
        """Those that a replica which is heard knows."""
        return {key for r in self._replicas.values() if self._is_heard(r) for key in r.loads}

    def replicas(self) -> tuple[int, int]:
        """How many are heard, and how many are silent."""
        heard = sum(self._is_heard(r) for r in self._replicas.values())
        return heard, len(self._replicas) - heard

    def _is_heard(self, replica: _Replica) -> bool:
        return self._clock() - replica.heard_s <= STALE_S

    async def _read(self, address: str, replica: _Replica) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            before_s = replica.heard_s
            try:
                await self._read_stream(address, replica)
                problem = "the replica ended the stream"
            except _UNUSABLE as error:
                problem = repr(error)
            _log.debug("a gateway replica is not heard", extra={"address": address, "error": problem})
            pause_s = _FIRST_PAUSE_S if replica.heard_s > before_s else min(pause_s * 2, _LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s)

    async def _read_stream(self, address: str, replica: _Replica) -> None:
        async with self._session.get(
            f"http://{address}/load",
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=STALE_S),
            read_bufsize=_LONGEST_LINE_BYTES,
        ) as answer:
            answer.raise_for_status()
            lines: list[JsonObject] = []
            async for line in answer.content:
                lines.append(json.loads(line))
                if "process" in lines[-1]:
                    self._take(replica, lines[:-1], lines[-1])
                    lines = []

    def _take(self, replica: _Replica, services: list[JsonObject], end: JsonObject) -> None:
        """A whole report has come."""
        loads = {_key(s): _load(s) for s in services}
        counts: dict[ServiceKey, tuple[int, Totals]] = {
            _key(s): (int(s["count"]), dict(_totals(s))) for s in services
        }
        now_s = self._clock()
        process_began_s = now_s - float(end["ageSeconds"])
        self._totals.take(str(end["process"]), counts, process_began_s=process_began_s, now_s=now_s)
        replica.loads, replica.heard_s = loads, now_s


def _key(service: JsonObject) -> ServiceKey:
    return str(service["namespace"]), str(service["name"])


def _load(service: JsonObject) -> ReplicaLoad:
    woken = service["wokenSecondsAgo"]
    return ReplicaLoad(
        waiting=int(service["waiting"]),
        oldest_wait_s=float(service["oldestWaitSeconds"]),
        woken_ago_s=None if woken is None else float(woken),
        instances=tuple(
            InstanceLoad(
                name=str(i["name"]),
                revision=str(i["revision"]),
                in_flight=int(i["inFlight"]),
                limit=int(i["limit"]),
                usable=i["state"] == "usable",
            )
            for i in service["instances"]
        ),
    )


def _totals(service: JsonObject) -> Iterator[tuple[TotalKey, float]]:
    yield ("arrived",), float(service["arrived"])
    yield ("ended",), float(service["ended"])
    for code, count in service["refused"].items():
        yield ("refused", str(code)), float(count)
    for revision in service["revisions"]:
        name = str(revision["name"])
        for bucket, count in enumerate(revision["waits"]):
            yield ("waits", name, str(bucket)), float(count)
        yield ("first_tokens", name), float(revision["firstTokens"])
        yield ("first_token_s", name), float(revision["firstTokenSeconds"])
        yield ("requests", name), float(revision["requests"])
        yield ("request_s", name), float(revision["requestSeconds"])


def _stop(replica: _Replica) -> None:
    if replica.task is not None:
        replica.task.cancel()
