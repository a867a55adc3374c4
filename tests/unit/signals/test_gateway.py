"""Against the gateway's own reports on real sockets, and against replicas that misbehave."""

import asyncio
import json

import pytest
from aiohttp import ClientSession, web
from tests.unit.gateway.gateway import until
from tests.unit.gateway.records import record

from stoker.gateway.accounting import Accounting
from stoker.gateway.load_report import LoadReports
from stoker.gateway.table import RoutingTable, ServiceState
from stoker.signals import gateway as module
from stoker.signals.gateway import STALE_S, GatewayLoads

CHAT = ("demo", "chat")


class Replica:
    """One gateway replica, but for its data path."""

    def __init__(self, clock):
        self.clock = clock
        self.runner = None
        self.port = 0
        self.readers = 0
        self.start()

    def start(self):
        """Begin as a new process does."""
        self.table = RoutingTable(draw=lambda: 0.5, on_wake=lambda service: None)
        self.accounting = Accounting(self.table)
        self.reports = LoadReports(self.accounting, self.table, clock=self.clock)
        state = ServiceState(
            namespace="demo", name="chat", created="2026-01-01T00:00:00Z", models=("chat",), zero=True
        )
        self.table.update([state], replicas=1, now_s=0.0)

    async def open(self):
        application = web.Application()
        application.router.add_get("/load", self.answer)
        self.runner = web.AppRunner(application, shutdown_timeout=0.01)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port).start()
        self.port = self.runner.addresses[0][1]

    async def answer(self, request):
        self.readers += 1
        return await self.reports.answer(request)

    async def close(self):
        await self.runner.cleanup()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def finish(self, count):
        for _ in range(count):
            self.accounting.add(record())

    def say(self):
        """Report now."""
        self.reports.wake(self.table.services[CHAT])


class Time:
    """The loop's own, and more when a test says so."""

    def __init__(self):
        self.more_s = 0.0

    def __call__(self):
        return asyncio.get_running_loop().time() + self.more_s


@pytest.fixture
def clock():
    return Time()


@pytest.fixture
async def replica(clock):
    replica = Replica(clock)
    await replica.open()
    yield replica
    await replica.close()


@pytest.fixture
async def other_replica(clock):
    replica = Replica(clock)
    await replica.open()
    yield replica
    await replica.close()


@pytest.fixture
async def loads(clock, monkeypatch):
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.01)
    async with ClientSession() as session:
        loads = GatewayLoads(session, clock=clock)
        yield loads
        loads.close()


async def heard(loads, count):
    await until(lambda: loads.replicas()[0] == count)


async def test_a_service_is_the_sum_over_its_replicas(loads, replica, other_replica):
    loads.follow([replica.address, other_replica.address])
    await heard(loads, 2)
    replica.finish(3)
    other_replica.finish(4)
    replica.say()
    other_replica.say()
    await until(lambda: loads.load(CHAT).totals["arrived",] == 7)
    load = loads.load(CHAT)
    assert (load.heard, load.silent) == (2, 0)
    assert load.totals["ended",] == 7
    assert load.totals["first_tokens", "r1"] == 7
    assert loads.services() == {CHAT}


async def test_a_wake_comes_at_once(loads, replica):
    loads.follow([replica.address])
    await heard(loads, 1)
    loop = asyncio.get_running_loop()
    said_s = loop.time()
    replica.say()
    await until(lambda: loads.load(CHAT).woken_ago_s is not None)
    assert loop.time() - said_s < 0.9


async def test_reports_go_on_by_themselves(loads, replica):
    loads.follow([replica.address])
    await heard(loads, 1)
    replica.finish(2)
    await until(lambda: loads.load(CHAT).totals["arrived",] == 2)


async def test_a_missing_replica_is_silent_and_not_zero(loads, replica, other_replica):
    loads.follow([replica.address, other_replica.address])
    await heard(loads, 2)
    await other_replica.close()
    loads._clock.more_s += STALE_S
    replica.say()
    await until(lambda: loads.load(CHAT) is not None)
    load = loads.load(CHAT)
    assert (load.heard, load.silent) == (1, 1)


async def test_when_no_replica_is_heard_nothing_is_known(loads, replica, clock):
    loads.follow([replica.address])
    await heard(loads, 1)
    await replica.close()
    clock.more_s += STALE_S + 1
    assert loads.load(CHAT) is None
    assert loads.services() == set()
    assert loads.replicas() == (0, 1)


async def test_a_replica_that_restarts_is_counted_on(loads, replica):
    loads.follow([replica.address])
    await heard(loads, 1)
    replica.finish(5)
    replica.say()
    await until(lambda: loads.load(CHAT).totals["arrived",] == 5)
    await replica.close()
    replica.start()
    replica.finish(2)
    await replica.open()
    await until(lambda: loads.load(CHAT).totals["arrived",] == 7)


async def test_a_replica_that_is_not_to_be_followed_is_left(loads, replica, other_replica):
    loads.follow([replica.address, other_replica.address])
    await heard(loads, 2)
    loads.follow([replica.address])
    assert loads.replicas() == (1, 0)
    assert loads.load(CHAT).heard == 1
    await until(lambda: not other_replica.reports._at_once)


async def test_a_reader_that_leaves_is_forgotten_by_the_replica(loads, replica):
    loads.follow([replica.address])
    await heard(loads, 1)
    loads.close()
    await until(lambda: not replica.reports._at_once)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"not JSON\n", id="no JSON"),
        pytest.param(b"[]\n[1]\n", id="no object"),
        pytest.param(json.dumps({"process": "p"}).encode() + b"\n", id="an end without its age"),
        pytest.param(
            b'{"namespace": "demo"}\n{"process": "p", "ageSeconds": 1}\n', id="a service without its load"
        ),
        pytest.param(b"x" * 4_000_000, id="a line without an end"),
    ],
)
async def test_a_replica_that_talks_nonsense_is_silent_and_asked_again(loads, body):
    asked = []

    async def answer(request):
        asked.append(request)
        return web.Response(body=body)

    application = web.Application()
    application.router.add_get("/load", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    loads.follow([f"127.0.0.1:{runner.addresses[0][1]}"])
    await until(lambda: len(asked) > 2)
    assert loads.replicas() == (0, 1)
    loads.close()
    await runner.cleanup()


async def test_half_a_report_is_no_report(loads):
    asked = []

    async def answer(request):
        asked.append(request)
        response = web.StreamResponse()
        await response.prepare(request)
        load = {"namespace": "demo", "name": "chat", "waiting": 9}
        await response.write(json.dumps(load).encode() + b"\n")
        return response

    application = web.Application()
    application.router.add_get("/load", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    loads.follow([f"127.0.0.1:{runner.addresses[0][1]}"])
    await until(lambda: len(asked) > 1)
    assert loads.load(CHAT) is None
    loads.close()
    await runner.cleanup()
