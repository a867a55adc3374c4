"""How does the routing table come to know what is in the cluster?

Two watches in each namespace, of `InferenceService`s and of the EndpointSlices of their Services,
and one of the gateway's own EndpointSlices, whose ready pods share the queues and instances with
this one. Whatever they tell goes into a picture, and the picture as a whole into the table, soon
after: at once if the last time is a while ago, else when it has paid for itself, as a thousand
services that change together must not stop the streams a thousand times.

The API server is not needed to go on: without it the last picture stays.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from stoker.api import names
from stoker.core.model import JsonObject
from stoker.gateway.picture import Picture
from stoker.gateway.service_states import SERVICE_NAME_LABEL, ready_pods
from stoker.gateway.table import Changes, RoutingTable
from stoker.kube.client import Client
from stoker.kube.resources import ENDPOINT_SLICES, INFERENCE_SERVICES, Resource
from stoker.kube.watch import Collection, ObjectKey

_LEAST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.5
_PAUSE_PER_WORK = 10.0
"""How much longer than an update took the next one waits: at most a tenth of the time goes into them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What to watch, and where this gateway itself is."""

    namespaces: tuple[str, ...]
    """Namespaces whose services are served; all if empty."""
    own_namespace: str
    own_service: str
    """Name of the gateway's own Service; empty if it has none."""
    workers: int
    """Processes of each gateway pod, which share what the pod may take."""


class Discovery:
    """Keeps a routing table as the cluster is."""

    def __init__(
        self,
        client: Client,
        table: RoutingTable,
        place: Place,
        *,
        first_byte_timeout_s: float,
        on_change: Callable[[Changes], None],
        draw: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_change` is told what each update of the table changed."""
        self._table = table
        self._place = place
        self._on_change = on_change
        self._clock = clock
        self._picture = Picture(first_byte_timeout_s=first_byte_timeout_s)
        self._collections: list[Collection] = []
        self._update: asyncio.Handle | None = None
        self._not_before_s = float("-inf")
        self._published = False
        # The controller that writes the EndpointSlices of a Service copies the Service's labels.
        kinds: tuple[tuple[Resource, str | None, Callable[[ObjectKey, JsonObject | None], None]], ...] = (
            (INFERENCE_SERVICES, None, self._picture.service),
            (ENDPOINT_SLICES, names.SERVICE_LABEL, self._picture.slice),
        )
        for namespace in place.namespaces or (None,):
            for resource, label_selector, take in kinds:
                collection = Collection(
                    client,
                    resource,
                    namespace=namespace,
                    label_selector=label_selector,
                    on_change=partial(self._told, take),
                    spread=draw,
                )
                self._collections.append(collection)
        self._own_slices = Collection(
            client,
            ENDPOINT_SLICES,
            namespace=place.own_namespace,
            label_selector=f"{SERVICE_NAME_LABEL}={place.own_service}",
            on_change=lambda _: self._schedule(),
            spread=draw,
        )
        self._followed = [*self._collections, *([self._own_slices] if place.own_service else [])]

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for collection in self._followed:
                tasks.create_task(collection.follow())

    @property
    def ready(self) -> bool:
        """Whether the table is as the cluster is, as far as this gateway may know.

        A namespace that is gone, with the right to read it, does not keep the others waiting.
        """
        return self._published and any(c.synced for c in self._collections)

    def troubles(self) -> list[str]:
        """What keeps the table from being as the cluster is now, one sentence each."""
        return [c.trouble for c in self._followed if c.trouble]

    @property
    def replicas(self) -> int:
        """Gateway processes that share the services, this one included."""
        pods = ready_pods(self._own_slices.objects.values())
        return max(1, pods) * self._place.workers

    def _told(
        self,
        take: Callable[[ObjectKey, JsonObject | None], None],
        changes: Mapping[ObjectKey, JsonObject | None],
    ) -> None:
        for key, obj in changes.items():
            take(key, obj)
        self._schedule()

    def _schedule(self) -> None:
        """Bring the table up to date soon, unless that is to come already."""
        if self._update is None and all(c.synced or c.refused for c in self._followed):
            in_s = max(0.0, self._not_before_s - self._clock())
            self._update = asyncio.get_running_loop().call_later(in_s, self._publish)

    def _publish(self) -> None:
        self._update = None
        now_s = self._clock()
        states = self._picture.states(
            # What was there before this gateway is not new.
            ready_since_s=now_s if self._published else float("-inf"),
            now=datetime.now(UTC),
            now_s=now_s,
        )
        changes = self._table.update(states, replicas=self.replicas, now_s=now_s)
        self._published = True
        self._on_change(changes)
        end_s = self._clock()
        pause_s = _PAUSE_PER_WORK * (end_s - now_s)
        self._not_before_s = end_s + min(max(pause_s, _LEAST_PAUSE_S), _LONGEST_PAUSE_S)
