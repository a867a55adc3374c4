"""Which gateway replicas are there, and what load do services have by what they say?

The one that leads lists the EndpointSlices of the gateway's Service every few seconds and reads each
replica, ready or not: one that drains still has requests. What they say becomes metrics, summed over
the replicas, so that an HPA or KEDA finds one number for each service; only the leader has them, or a
sum over the operators would count everything twice. A service that no replica speaks of has no series,
which an HPA takes as unknown, not as zero.

Rejected: a watch (a replica that is read a few seconds late loses nothing, as it sends totals); asking
the Service (its connections end at one replica, by chance).
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stoker.core.model import JsonObject
from stoker.kube.client import Client
from stoker.kube.errors import KubeError
from stoker.kube.resources import ENDPOINT_SLICES
from stoker.signals.gateway import GatewayLoads

_EVERY_S = 5.0
_SERVICE_OF_SLICE = "kubernetes.io/service-name"

_log = logging.getLogger(__name__)


async def follow_replicas(
    loads: GatewayLoads, client: Client, *, namespace: str, service: str, ports: Iterable[int]
) -> None:
    """Have the loads of this Service's pods read, as they come and go, until cancelled.

    `ports` are the admin ports of a pod: one for each process in it.
    """
    selector = f"{_SERVICE_OF_SLICE}={service}"
    ports = tuple(ports)
    while True:
        try:
            slices = await client.list(ENDPOINT_SLICES, namespace=namespace, label_selector=selector)
        except KubeError as error:
            _log.warning("the gateway's replicas were not listed", extra={"error": str(error)})
        else:
            loads.follow(addresses(slices, ports))
        await asyncio.sleep(_EVERY_S)


def addresses(slices: Iterable[JsonObject], ports: tuple[int, ...]) -> set[str]:
    """Where the admin ports of all pods in these EndpointSlices are."""
    return {
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for one in slices
        for endpoint in one.get("endpoints") or ()
        for host in endpoint.get("addresses") or ()
        for port in ports
    }


class LoadMetrics(Collector):
    """The loads as metrics, made when Prometheus asks."""

    def __init__(self, loads: GatewayLoads) -> None:
        self._loads = loads

    def collect(self) -> Iterator[Metric]:
        """What is known now."""
        labels = ["namespace", "service"]
        queued = GaugeMetricFamily(
            "stoker_service_queued_requests", "Requests that wait in the gateways.", labels=labels
        )
        oldest = GaugeMetricFamily(
            "stoker_service_oldest_wait_seconds",
            "How long the first of them has been waiting.",
            labels=labels,
        )
        in_flight = GaugeMetricFamily(
            "stoker_service_in_flight_requests", "Requests that are on instances.", labels=labels
        )
        arrived = CounterMetricFamily(
            "stoker_service_arrived_requests", "Requests since this operator leads.", labels=labels
        )
        for key in sorted(self._loads.services()):
            load = self._loads.load(key)
            if load is not None:
                queued.add_metric(key, load.waiting)
                oldest.add_metric(key, load.oldest_wait_s)
                in_flight.add_metric(key, load.in_flight)
                arrived.add_metric(key, load.totals.get(("arrived",), 0.0))
        replicas = GaugeMetricFamily(
            "stoker_gateway_replicas", "Gateway replicas whose load is heard, or not.", labels=["state"]
        )
        for state, count in zip(("heard", "silent"), self._loads.replicas(), strict=True):
            replicas.add_metric([state], count)
        yield from (queued, oldest, in_flight, arrived, replicas)
