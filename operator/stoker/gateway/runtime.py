"""Starts the parts of the gateway, keeps them together, and stops them without a client noticing.

One event loop holds everything: the clients' connections and the engines', the watches, the admin
port. Clients are let in once the table is known, and not before. From then on the API server is not
needed; a part of ours that ends takes the process with it.

The end, from the order to stop: first not ready, and every answer says that its connection closes, so
that clients and proxies move over while requests are still served, as it takes a moment until nobody
sends any. Then the ports close, new requests on open connections are refused (`503 draining`), what
runs goes on, and what waits may still start. When the time is up, what still waits is told to come
again, and what still runs is cut.
"""

import asyncio
import contextlib
import gc
import logging
import random
import resource
import signal
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop
from aiohttp import web
from prometheus_client import generate_latest

from stoker.gateway import admin
from stoker.gateway.accounting import Accounting
from stoker.gateway.data_path import DataPath, Limits
from stoker.gateway.discovery import Discovery, Place
from stoker.gateway.errors import Code, Rejection
from stoker.gateway.listener import Listener
from stoker.gateway.load_report import LoadReports
from stoker.gateway.metric_families import CONNECTIONS
from stoker.gateway.metrics import exposition
from stoker.gateway.settings import Settings
from stoker.gateway.sinks import Sinks
from stoker.gateway.table import Changes, RoutingTable, Service
from stoker.gateway.tls import Certificate
from stoker.gateway.traces import Tracing
from stoker.gateway.workers import Workers
from stoker.kube import access
from stoker.kube.client import Client
from stoker.kube.errors import FatalError

if TYPE_CHECKING:
    from stoker.gateway.key_watch import KeyWatch

_ALL_ADDRESSES = ""
_LAST_WORDS_S = 1.0
"""Time for those who still wait to be told, before what is left is cut."""
_COME_AGAIN_S = 1.0
_GENERATIONS = (50_000, 20, 100)
"""Thresholds of the garbage collector: a request leaves no cycles behind, so it rarely needs to look."""

_log = logging.getLogger(__name__)


class Gateway:
    """All parts of one gateway process."""

    def __init__(
        self,
        settings: Settings,
        *,
        client: Client,
        worker: int = 0,
    ) -> None:
        """`worker` is the number of this process among those of its pod."""
        self._settings = settings
        self._worker = worker
        self._stop = asyncio.Event()
        self._known = asyncio.Event()
        """Set once the table is known."""
        self._serving = False
        self._certificate: Certificate | None = None
        self._table = RoutingTable(draw=random.random, on_wake=self._wake)
        self._accounting = Accounting(self._table)
        self._loads = LoadReports(self._accounting, self._table, clock=time.monotonic)
        self._sinks = Sinks(self._accounting)
        self._data_path = DataPath(
            table=self._table,
            limits=_limits(settings),
            on_end=self._sinks.add,
            tracing=_tracing(settings),
        )
        self._listener = Listener(self._data_path)
        self._discovery = Discovery(
            client,
            self._table,
            Place(
                namespaces=settings.watch_namespaces,
                own_namespace=settings.namespace,
                own_service=settings.service,
                workers=settings.workers,
            ),
            first_byte_timeout_s=settings.first_byte_timeout_s,
            on_change=self._updated,
            draw=random.random,
        )

    async def run(self) -> None:
        """Serve until SIGTERM, then return; or raise what ended one of the parts."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        async with self._admin_port(), self._sinks.running(self._settings, replica=_replica(self._worker)):
            parts = {asyncio.create_task(self._discovery.run(), name="watches")}
            try:
                if self._settings.tls_certificate:
                    self._certificate = self._load_certificate()
                    parts.add(asyncio.create_task(self._certificate.follow(), name="certificate"))
                if self._settings.api_keys:
                    keys = self._load_keys()
                    self._data_path.keys = keys.ring
                    parts.add(asyncio.create_task(keys.follow(), name="API keys"))
                if await self._first(self._known, parts):
                    await self._serve(parts)
            finally:
                for part in parts:
                    part.cancel()
                await asyncio.gather(*parts, return_exceptions=True)

    async def _serve(self, parts: set[asyncio.Task[None]]) -> None:
        await self._open_ports()
        settle_memory()
        self._serving = True
        _log.info("serving", extra={"services": len(self._table.services)})
        await self._first(self._stop, parts)
        await self._drain()

    async def _first(self, event: asyncio.Event, parts: set[asyncio.Task[None]]) -> bool:
        """Wait for the event or the order to stop; whether it was the event. Raises if a part ends."""
        waits = {asyncio.create_task(one.wait()) for one in (event, self._stop)}
        try:
            done, _ = await asyncio.wait({*parts, *waits}, return_when=asyncio.FIRST_COMPLETED)
            for part in done & parts:
                part.result()
                raise FatalError(f"running the {part.get_name()}", "it ended by itself")
        finally:
            for wait in waits:
                wait.cancel()
        return event.is_set()

    async def _open_ports(self) -> None:
        settings = self._settings
        ports: list[tuple[int, ssl.SSLContext | None]] = [(settings.port, None)]
        if self._certificate is not None:
            ports.append((settings.tls_port, self._certificate.context))
        for port, tls in ports:
            try:
                await self._listener.open(_ALL_ADDRESSES, port, tls=tls, reuse_port=settings.workers > 1)
            except OSError as error:
                raise FatalError("opening the port for clients", f"{error}; choose another --port") from error

    async def _drain(self) -> None:
        settings, data_path = self._settings, self._data_path
        self._serving = False
        _log.info("draining", extra={"connections": len(data_path.clients)})
        data_path.draining = True
        await asyncio.sleep(settings.drain_delay_s)
        for service in self._table.services.values():
            service.queue.drain()
        loop = asyncio.get_running_loop()
        last_words = loop.call_later(max(0.0, settings.drain_s - _LAST_WORDS_S), self._refuse_waiting)
        # Clients may have left and come since; only those that are there now count.
        data_path.all_left.clear()
        await self._listener.drain(settings.drain_s)
        last_words.cancel()

    def _refuse_waiting(self) -> None:
        rejection = Rejection(
            code=Code.DRAINING,
            message="This gateway replica is shutting down; send the request again.",
            retry_after_s=_COME_AGAIN_S,
        )
        for service in self._table.services.values():
            service.queue.refuse_all(rejection)

    def _updated(self, changes: Changes) -> None:
        self._data_path.take_note(changes)
        if self._discovery.ready:
            self._known.set()

    def _wake(self, service: Service) -> None:
        _log.info("a request waits for a service at zero", extra={"service": service.queue.name})
        self._loads.wake(service)

    def _unready(self) -> str:
        """Why no requests should come, in a sentence; empty if they may."""
        if self._serving:
            return ""
        if self._stop.is_set():
            return "This gateway is shutting down."
        return " ".join(["The services are not known yet.", *self._discovery.troubles()])

    def _load_certificate(self) -> Certificate:
        settings = self._settings
        try:
            return Certificate(certificate=settings.tls_certificate, key=settings.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise FatalError(
                "reading the certificate", f"{error}; check --tls-certificate and --tls-key"
            ) from error

    def _load_keys(self) -> "KeyWatch":
        # Here, as it costs a fifth of the time until a gateway serves, and many have no keys.
        from stoker.gateway.key_watch import KeyWatch

        try:
            return KeyWatch(Path(self._settings.api_keys), replicas=lambda: self._discovery.replicas)
        except OSError as error:
            raise FatalError("reading the API keys", f"{error}; check --api-keys") from error

    def _metrics(self) -> Iterator[bytes]:
        yield generate_latest()
        yield from exposition(
            self._accounting,
            self._table,
            now_s=self._data_path.clock(),
            own={CONNECTIONS: len(self._data_path.clients), **self._sinks.counts()},
        )

    @contextlib.asynccontextmanager
    async def _admin_port(self) -> AsyncIterator[None]:
        application = admin.application(unready=self._unready, metrics=self._metrics, loads=self._loads)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, port=self._settings.admin_port + self._worker).start()
            except OSError as error:
                raise FatalError("opening the admin port", f"{error}; choose another --admin-port") from error
            yield
        finally:
            await runner.cleanup()


def run(settings: Settings) -> int:
    """Serve, in as many processes as the settings say; returns the exit status."""
    raise_file_limit()
    if settings.workers == 1:
        return _work(settings, worker=0)
    # What the processes have in common is not copied by a collection that looks at it.
    gc.freeze()
    return Workers(settings.workers, lambda number: _work(settings, worker=number)).run()


def _work(settings: Settings, *, worker: int) -> int:
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run_one(settings, worker=worker))
    except FatalError as error:
        _log.error(str(error))
        return 1
    return 0


async def _run_one(settings: Settings, *, worker: int) -> None:
    async with Client(await access.load_light(settings.kubeconfig)) as client:
        await Gateway(settings, client=client, worker=worker).run()


def _replica(worker: int) -> str:
    """The name of this process among all of the gateway's: the pod's, and which of its workers."""
    return f"{socket.gethostname()}-{worker}"


def _tracing(settings: Settings) -> Tracing | None:
    if not settings.trace_endpoint:
        return None
    return Tracing(ratio=settings.trace_ratio, bits=random.getrandbits)


def _limits(settings: Settings) -> Limits:
    return Limits(
        body_bytes=settings.body_limit_bytes,
        keep_alive_s=settings.keep_alive_s,
        silence_s=settings.silence_timeout_s,
    )


def settle_memory() -> None:
    """What is there now stays: the garbage collector need not look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GENERATIONS)


def raise_file_limit() -> None:
    """A stream takes two files, and many systems start a process with room for 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
