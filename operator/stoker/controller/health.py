"""Is the operator alive, is it ready, and what has it counted: HTTP on one port.

Alive does not mean that the API server is there: restarting cannot bring it back. It means that
the loops go round, that no worker hangs, and that the watches show what a list shows; a watch that
went blind is mended by a restart. A standby is ready too, as it could lead at once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from stoker.controller import metrics
from stoker.controller.queue import WorkQueue
from stoker.controller.triggers import Triggers
from stoker.core.model import JsonObject
from stoker.kube.lease import Lease

_LOOP_LIMIT_S = 60.0
"""The Lease is looked at every 2 s, and one look is given up after 5 s."""
_WORK_LIMIT_S = 300.0
"""Every request of a reconcile has a timeout of its own; together they are far below this."""


@dataclass(slots=True)
class WatchCheck:
    """Compares what a list shows with what the watch has shown."""

    triggers: Triggers
    synced: bool = False
    """Whether the watch has caught up with a list at least once."""
    _unseen: frozenset[tuple[str, int]] = frozenset()
    blind_to: frozenset[tuple[str, int]] = field(default=frozenset())
    """What two lists in a row showed and the watch still did not."""

    def listed(self, services: list[JsonObject], *, first: bool) -> None:
        """Take note of a list; the first only sets what the watch has to show."""
        unseen = self.triggers.unseen(services)
        self.blind_to = unseen & self._unseen
        self._unseen = unseen
        self.synced = self.synced or not unseen or not (first or self.blind_to)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Answers the probes."""

    queue: WorkQueue
    lease: Lease
    watch: WatchCheck
    clock: Callable[[], float]
    load: CollectorRegistry = field(default_factory=CollectorRegistry)
    """Metrics of the services' load; empty without a gateway."""

    def ailments(self) -> list[str]:
        """What a restart may mend, one sentence each; empty when all is well."""
        found = []
        if (silent_s := self.clock() - self.lease.beat_at_s) > _LOOP_LIMIT_S:
            found.append(f"The Lease loop has not gone round for {silent_s:.0f} s.")
        if (working_s := self.queue.longest_working_s()) > _WORK_LIMIT_S:
            found.append(f"A worker has been busy with one service for {working_s:.0f} s.")
        if self.lease.held.is_set() and (waiting_s := self.queue.oldest_waiting_s()) > _WORK_LIMIT_S:
            found.append(f"A service has been waiting for a worker for {waiting_s:.0f} s.")
        if self.watch.synced and self.watch.blind_to:
            found.append(f"The watch does not show {len(self.watch.blind_to)} services that exist.")
        return found

    def application(self) -> web.Application:
        """The HTTP side."""
        application = web.Application()
        application.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
            ]
        )
        return application

    async def _healthz(self, _: web.Request) -> web.Response:
        ailments = self.ailments()
        return web.Response(status=500 if ailments else 200, text="\n".join(ailments) or "ok")

    async def _readyz(self, _: web.Request) -> web.Response:
        if self.watch.synced:
            return web.Response(text="ok")
        return web.Response(status=503, text="The watches have not shown all services yet.")

    async def _metrics(self, _: web.Request) -> web.Response:
        metrics.QUEUE_WAITING.set(self.queue.waiting)
        metrics.QUEUE_WORKING.set(self.queue.working)
        metrics.QUEUE_OLDEST_S.set(self.queue.oldest_waiting_s())
        body = generate_latest() + generate_latest(self.load)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
