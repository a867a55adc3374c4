"""Starts the parts of the operator, keeps them together, and stops them in order.

One event loop holds everything: kopf's watches, the Lease, the workers, the resync, the HTTP port.
Standbys watch and fill their queue too, so that a takeover starts with a full picture; only the
holder of the Lease has workers that take keys from it.

The parts run until SIGTERM. One that ends earlier takes the process with it: a watch that died or a
Lease that was lost is mended by a fresh start, and a process without them would only look alive.
"""

import asyncio
import contextlib
import logging
import random
import signal
import time
import zlib
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime

import aiohttp
import kopf
from aiohttp import web

from stoker.api import names
from stoker.controller import handlers, metrics
from stoker.controller.corrections import Corrections
from stoker.controller.gateway_load import LoadMetrics, follow_replicas
from stoker.controller.health import Health, WatchCheck
from stoker.controller.model_files import ModelFilesReader
from stoker.controller.queue import Key, WorkQueue
from stoker.controller.triggers import Triggers
from stoker.controller.worker import Worker
from stoker.core.model import JsonObject
from stoker.fetch.guard import AddressGuard
from stoker.kube import access
from stoker.kube.client import Client
from stoker.kube.errors import AbsentError, FatalError, InvalidError, KubeError, RetryError
from stoker.kube.lease import Lease, LeaseTimes
from stoker.kube.recorder import Recorder
from stoker.kube.resources import INFERENCE_SERVICES
from stoker.settings import Settings
from stoker.signals.gateway import GatewayLoads
from stoker.signals.instance import InstanceReports

_DRAIN_S = 20.0
"""What is under way when the process is told to stop may take this long; the chart gives 30 s."""
_KOPF_STOP_S = 8.0
_SYNC_POLL_S = 1.0
_KIND_POLL_S = 2.0

_log = logging.getLogger(__name__)


class Operator:
    """All parts of one operator process."""

    def __init__(self, settings: Settings, *, client: Client, session: aiohttp.ClientSession) -> None:
        clock = time.monotonic
        self._settings = settings
        self._client = client
        self._session = session
        self._stop = asyncio.Event()
        self._stop_kopf = asyncio.Event()
        self._watching = asyncio.Event()
        """Set once kopf has started."""
        self._queue = WorkQueue(clock=clock, spread=random.random)
        self._triggers = Triggers(self._queue)
        self._reports = InstanceReports[Key](session, on_change=self._queue.add, clock=clock)
        self._models = ModelFilesReader(
            client,
            guard=AddressGuard(allow_internal=settings.allow_cluster_internal_sources),
            on_change=self._queue.add,
            clock=clock,
        )
        self._recorder = Recorder(client, instance=settings.identity, clock=clock)
        self._worker = Worker(
            client=client,
            reports=self._reports,
            models=self._models,
            corrections=Corrections(client, namespace=settings.namespace, now=_now),
            recorder=self._recorder,
            config=settings.config(),
            now=_now,
        )
        self._lease = Lease(
            client,
            namespace=settings.namespace,
            name=settings.lease_name,
            identity=settings.identity,
            times=LeaseTimes(),
            clock=clock,
            spread=random.random,
        )
        self._watch = WatchCheck(self._triggers)
        self._health = Health(queue=self._queue, lease=self._lease, watch=self._watch, clock=clock)

    async def run(self) -> None:
        """Run until SIGTERM, then return; or raise what ended one of the parts."""
        async with self._http_port():
            workers = [
                asyncio.create_task(self._work(), name=f"worker {n}") for n in range(self._settings.workers)
            ]
            lease = asyncio.create_task(self._lease.hold(), name="Lease")
            resync = asyncio.create_task(self._resync(), name="resync")
            watches = asyncio.create_task(self._watches(), name="watches")
            readers = [self._read_load()] if self._settings.gateway_service else []
            load = [asyncio.create_task(reader, name="the gateway's load") for reader in readers]
            try:
                await self._first_end({lease, resync, watches, *load, *workers})
                await self._drain(workers, lease=lease)
            finally:
                # Whatever the reason, nothing of ours goes on while kopf takes its time to stop.
                await _cancel(lease, resync, *load, *workers)
                self._reports.close()
                self._models.close()
                self._stop_kopf.set()
                await asyncio.wait({watches}, timeout=_KOPF_STOP_S)
                await _cancel(watches)

    async def _first_end(self, parts: set[asyncio.Task[None]]) -> None:
        """Wait for the order to stop; raise if a part ends before it."""
        stopped = asyncio.create_task(self._stop.wait())
        try:
            done, _ = await asyncio.wait({*parts, stopped}, return_when=asyncio.FIRST_COMPLETED)
            for part in done & parts:
                part.result()
                if not self._stop.is_set():
                    raise FatalError(f"running the {part.get_name()}", "it ended by itself")
        finally:
            stopped.cancel()

    async def _drain(self, workers: list[asyncio.Task[None]], *, lease: asyncio.Task[None]) -> None:
        """Let what is under way finish, then let the next replica lead."""
        _log.info("stopping")
        self._queue.close()
        if not self._lease.held.is_set():
            return
        finished = asyncio.create_task(_end_of(workers))
        await asyncio.wait({finished, lease}, timeout=_DRAIN_S, return_when=asyncio.FIRST_COMPLETED)
        if lease.done():
            lease.result()
        if not finished.done():
            _log.warning("stopping in the middle of a reconcile")
        # Nothing writes, and nothing renews the Lease, when it is given back.
        await _cancel(*workers, lease)
        try:
            await self._lease.release()
        except KubeError as error:
            _log.warning("the Lease was not given back", extra={"error": str(error)})

    async def _watches(self) -> None:
        await self._wait_for_kind()
        ours = asyncio.all_tasks()
        namespaces = self._settings.watch_namespaces
        tasks = await kopf.spawn_tasks(
            registry=handlers.registry(
                self._triggers, credentials=lambda: access.load(self._settings.kubeconfig)
            ),
            settings=handlers.settings(),
            clusterwide=not namespaces,
            namespaces=namespaces,
            # kopf would ask the system for the name of its user, and the user of an image has none.
            identity=self._settings.identity,  # type: ignore[arg-type]  # a str by another name
            stop_flag=self._stop_kopf,
            ready_flag=self._watching,
        )
        # Here and not earlier, as kopf has just set its own.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        await kopf.run_tasks(tasks, ignored=ours)

    async def _wait_for_kind(self) -> None:
        """kopf serves the kinds that are there when it starts, so ours has to be."""
        while True:
            try:
                await self._list_services()
                return
            except InvalidError as error:
                raise FatalError("starting", f"{error}. Bind the operator's ClusterRole to it") from error
            except AbsentError:
                _log.warning("waiting for the CustomResourceDefinition", extra={"kind": names.KIND})
            except KubeError as error:
                _log.warning("waiting for the API server", extra={"error": str(error)})
            await asyncio.sleep(_KIND_POLL_S)

    async def _resync(self) -> None:
        """Compare the watch with a list now and then, and look at every service again."""
        await self._watching.wait()
        first = True
        while True:
            try:
                services = await self._list_services()
            except KubeError as error:
                _log.warning("the resync failed", extra={"error": str(error)})
            else:
                self._watch.listed(services, first=first)
                self._recorder.forget({service["metadata"]["uid"] for service in services})
                for service in services:
                    key = Key(service["metadata"]["namespace"], service["metadata"]["name"])
                    self._queue.add_after(key, _phase(key) * self._settings.resync_s)
                first = False
            jitter = 0.9 + random.random() / 5
            await asyncio.sleep(self._settings.resync_s * jitter if self._watch.synced else _SYNC_POLL_S)

    async def _list_services(self) -> list[JsonObject]:
        found: list[JsonObject] = []
        for namespace in self._settings.watch_namespaces or (None,):
            found += await self._client.list(INFERENCE_SERVICES, namespace=namespace, metadata_only=True)
        return found

    async def _read_load(self) -> None:
        """Read what the gateway's replicas say, while this one leads."""
        settings = self._settings
        await self._lease.held.wait()
        loads = GatewayLoads(self._session, clock=time.monotonic)
        self._health.load.register(LoadMetrics(loads))
        first = settings.gateway_admin_port
        try:
            await follow_replicas(
                loads,
                self._client,
                namespace=settings.namespace,
                service=settings.gateway_service,
                ports=range(first, first + settings.gateway_workers),
            )
        finally:
            loads.close()

    async def _work(self) -> None:
        await self._lease.held.wait()
        while (key := await self._queue.get()) is not None:
            started_s = time.monotonic()
            try:
                result = await self._reconcile(key)
            finally:
                self._queue.done(key)
            metrics.RECONCILES.labels(result).inc()
            metrics.RECONCILE_SECONDS.observe(time.monotonic() - started_s)

    async def _reconcile(self, key: Key) -> str:
        """Reconcile once and plan the next look; how it went, for the metrics."""
        try:
            again_s = await self._worker.reconcile(key)
        except KubeError as error:
            least_s = (error.retry_after_s if isinstance(error, RetryError) else None) or 0.0
            again_s = self._queue.add_failed(key, least_s=least_s)
            about = {"service": str(key), "error": str(error), "again_in_s": round(again_s, 1)}
            _log.warning("the reconcile was not finished", extra=about)
            return "invalid" if isinstance(error, InvalidError) else "retry"
        except Exception:
            # One service that meets a mistake of ours must not take the others down with it.
            again_s = self._queue.add_failed(key)
            _log.exception(
                "the reconcile crashed", extra={"service": str(key), "again_in_s": round(again_s, 1)}
            )
            return "crashed"
        self._queue.succeeded(key)
        if again_s is not None:
            self._queue.add_after(key, again_s)
        return "done"

    @contextlib.asynccontextmanager
    async def _http_port(self) -> AsyncIterator[None]:
        runner = web.AppRunner(self._health.application(), access_log=None)
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, port=self._settings.port).start()
            except OSError as error:
                raise FatalError("opening the HTTP port", f"{error}; choose another --port") from error
            yield
        finally:
            await runner.cleanup()


async def _end_of(tasks: Iterable[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    """Have the tasks end now; what they ended with was dealt with, or no longer matters."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _now() -> datetime:
    return datetime.now(UTC)


def _phase(key: Key) -> float:
    """Where in the resync period a service has its turn, in [0, 1): always the same, spread evenly."""
    return zlib.crc32(str(key).encode()) / 2**32


async def run(settings: Settings) -> None:
    """Connect to the cluster and run the operator there."""
    configuration = await access.load(settings.kubeconfig)
    async with Client(configuration) as client, aiohttp.ClientSession() as session:
        await Operator(settings, client=client, session=session).run()
