"""Which of the operator's replicas leads: a `Lease` object, held by one at a time.

A holder renews every 2 s and gives up when it could not for 10 s. Others take over 15 s after the
last renewal that they saw, so the old holder has been gone for 5 s by then. Losing the Lease ends
the process (`LeadershipLostError`): the cheapest way to be sure that nothing of it goes on writing.

All waiting is on a monotonic clock of our own; the times in the object are for people. Rejected:
`kubernetes.aio.leaderelection`, which compares wall clocks and never releases; kopf's peering,
which is no election (equals pause each other).
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from prometheus_client import Gauge

from stoker.core.model import JsonObject
from stoker.kube.errors import ConflictError, KubeError
from stoker.kube.resources import LEASES, Resource

LEADER = Gauge("stoker_leader", "1 while this replica holds the Lease.")

_log = logging.getLogger(__name__)


class LeadershipLostError(Exception):
    """The Lease could not be renewed in time; this process must not write any more."""


class LeaseStore(Protocol):
    """The part of `kube.client.Client` that a Lease needs."""

    async def get(self, resource: Resource, *, namespace: str, name: str) -> JsonObject | None: ...
    async def create(self, obj: JsonObject) -> JsonObject: ...
    async def update(self, obj: JsonObject) -> JsonObject: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """The defaults are those of the Kubernetes controllers."""

    duration_s: float = 15.0
    """Others wait this long after the last renewal they saw."""
    renew_deadline_s: float = 10.0
    """The holder gives up when it could not renew for this long; less than `duration_s`."""
    retry_s: float = 2.0
    """Pause between two renewals, or two looks at someone else's Lease."""


class Lease:
    """One candidate for one Lease. `hold` waits for it, then keeps it until cancelled or lost."""

    def __init__(
        self,
        store: LeaseStore,
        *,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes,
        clock: Callable[[], float],
        spread: Callable[[], float],
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._times = times
        self._clock = clock
        self._spread = spread
        self._seen: JsonObject | None = None
        self._seen_at_s = 0.0
        self._renewed_at_s = 0.0
        self.beat_at_s = clock()
        """When the loop last went round, on the monotonic clock; for the health check."""
        self.held = asyncio.Event()

    async def hold(self) -> None:
        """Take the Lease as soon as it is free, renew it for ever; `LeadershipLostError` when that fails."""
        while True:
            pause_s = await self.step()
            await asyncio.sleep(pause_s)

    async def step(self) -> float:
        """Try once to take or renew; the seconds to wait before the next try."""
        # Counted from before the request: others may count from any moment after it.
        self.beat_at_s = self._clock()
        if await self._take_or_renew():
            self._renewed_at_s = self.beat_at_s
            if not self.held.is_set():
                _log.info("leading", extra={"identity": self._identity})
                self.held.set()
                LEADER.set(1)
        elif self.held.is_set():
            self._check_deadline()
        return self._pause_s()

    async def release(self) -> None:
        """Give the Lease back, so that another candidate need not wait for it to expire."""
        if not self.held.is_set():
            return
        self.held.clear()
        LEADER.set(0)
        lease = await self._store.get(LEASES, namespace=self._namespace, name=self._name)
        if lease is not None and lease["spec"].get("holderIdentity") == self._identity:
            lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            await self._store.update(lease)
            _log.info("gave the Lease back", extra={"identity": self._identity})

    def _check_deadline(self) -> None:
        silent_s = self._clock() - self._renewed_at_s
        holder = self._seen["spec"].get("holderIdentity") if self._seen else None
        if holder not in (self._identity, None):
            raise LeadershipLostError(f"The Lease {self._name} was taken by {holder}.")
        if silent_s >= self._times.renew_deadline_s:
            raise LeadershipLostError(f"The Lease {self._name} could not be renewed for {silent_s:.0f} s.")

    async def _take_or_renew(self) -> bool:
        """Whether the Lease is ours after one look at it and at most one write."""
        try:
            # Bounded, as a request that hangs must not outlive the deadline.
            async with asyncio.timeout(self._times.renew_deadline_s / 2):
                lease = await self._store.get(LEASES, namespace=self._namespace, name=self._name)
                self._remember(lease)
                if lease is None:
                    self._remember(await self._store.create(self._claim()))
                elif self._is_free(lease):
                    self._remember(await self._store.update(self._claim(lease)))
                else:
                    return False
                return True
        except ConflictError:
            return False
        except (KubeError, TimeoutError) as error:
            _log.warning("could not reach the Lease", extra={"error": str(error) or "timeout"})
            return False

    def _is_free(self, lease: JsonObject) -> bool:
        holder = lease["spec"].get("holderIdentity")
        return holder in (self._identity, "", None) or self._clock() >= self._expires_at_s()

    def _expires_at_s(self) -> float:
        return self._seen_at_s + self._times.duration_s

    def _remember(self, lease: JsonObject | None) -> None:
        if lease != self._seen:
            self._seen = lease
            self._seen_at_s = self._clock()

    def _pause_s(self) -> float:
        pause_s = self._times.retry_s * (1 + 0.2 * self._spread())
        if self.held.is_set() or self._seen is None:
            return pause_s
        # Wake up as the other's Lease expires, not up to a pause later.
        return max(0.0, min(pause_s, self._expires_at_s() - self._clock()))

    def _claim(self, lease: JsonObject | None = None) -> JsonObject:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        old = lease["spec"] if lease else {}
        mine = old.get("holderIdentity") == self._identity
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": round(self._times.duration_s),
            "renewTime": now,
            "acquireTime": old.get("acquireTime", now) if mine else now,
            "leaseTransitions": old.get("leaseTransitions", 0) + (0 if mine or not lease else 1),
        }
        metadata = lease["metadata"] if lease else {"namespace": self._namespace, "name": self._name}
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": old | spec,
        }
