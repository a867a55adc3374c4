"""Is nothing left over after very many requests in which everything goes wrong that can?

Each request has one outcome, which is what its client saw; and after the last one nothing is in flight,
queued or open, and the process is as small as it was after the first ones.
"""

import asyncio
import collections
import ctypes
import gc
import os
import random
import resource
import time
from pathlib import Path

import uvloop
from tests.soak.clients import MAY_BE_LOST, Client
from tests.soak.engines import Engine
from tests.soak.plans import plan

from stoker.gateway.attempt import Attempt
from stoker.gateway.client_connection import ClientConnection
from stoker.gateway.data_path import DataPath, Limits
from stoker.gateway.engine_connection import EngineConnection
from stoker.gateway.exchange import Exchange
from stoker.gateway.listener import Listener
from stoker.gateway.outcome import Outcome
from stoker.gateway.pool import pool_of
from stoker.gateway.table import InstanceState, RoutingTable, ServiceState

_CLIENTS = 96
_CAPACITY = 12
_LIMITS = Limits(answer_s=1.5, silence_s=1.0, stall_s=1.5, connect_s=0.5, engine_idle_s=1.0, head_s=5.0)
_FAILED = frozenset({Outcome.UPSTREAM_ERROR, Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY})
_MOST_FAULTS_SHOWN = 20
_WAVES = 6
_FILES_OF_THE_LOOP = 4


class Soak:
    """A gateway, engines that come and go, and clients; and the books about them."""

    def __init__(self, seed):
        self.seed = seed
        self.chance = random.Random(seed)
        self.next_number = 0
        self.wave_ends = 0
        self.open_clients = 0
        self.requests = 0
        self.records = 0
        self.outcomes = collections.Counter()
        self.pending = {}
        """Requests whose client has not seen their end, by name: their record, once there is one."""
        self.unseen = {}
        """Requests whose client does not wait for their record; with whether there may be none."""
        self.faults = []
        self.errors = []
        self.attempts = {}
        self.engines = []
        self.idle = asyncio.Event()

    async def start(self):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: self.errors.append(str(context)))
        self.table = RoutingTable(draw=self.chance.random, on_wake=lambda service: None)
        self.data_path = DataPath(table=self.table, limits=_LIMITS, on_end=self.on_end)
        self.listener = Listener(self.data_path)
        self.port = await self.listener.open("127.0.0.1", 0)
        for _ in range(4):
            await self.start_engine()
        self.show()

    async def close(self):
        await self.listener.drain(1)
        for engine in self.engines:
            engine.kill()
        await asyncio.sleep(0.1)

    # The cluster.

    async def start_engine(self):
        engine = Engine(self.attempts)
        await engine.start()
        self.engines.append(engine)

    def show(self, *, hidden=(), leaving=(), **fields):
        """The gateway learns what there is."""
        instances = tuple(
            InstanceState(
                name=f"chat-{engine.port}",
                host="127.0.0.1",
                port=engine.port,
                revision=f"r{engine.port % 2}",
                leaving=engine in leaving,
            )
            for engine in self.engines
            if engine not in hidden
        )
        state = ServiceState(
            namespace="demo",
            name="chat",
            created="2026-01-01T00:00:00Z",
            models=("chat",),
            capacity=_CAPACITY,
            max_requests=40,
            max_wait_s=0.5,
            first_byte_timeout_s=1.0,
            instances=instances,
            **fields,
        )
        self.data_path.take_note(self.table.update([state], replicas=1, now_s=self.data_path.clock()))

    async def churn(self):
        """Engines die, hang, leave and come."""
        chance = self.chance
        while not self.idle.is_set():
            await asyncio.sleep(0.02 + 0.1 * chance.random())
            engine = chance.choice(self.engines)
            match chance.randrange(8):
                case 0:  # It dies, and the gateway learns of it later, when there is another one.
                    engine.kill()
                    await asyncio.sleep(0.05 * chance.random())
                    self.engines.remove(engine)
                    await self.start_engine()
                    self.show()
                case 1:  # It leaves as a pod does that is deleted.
                    self.show(leaving=[engine])
                    await asyncio.sleep(0.1)
                    self.engines.remove(engine)
                    self.show()
                    await asyncio.sleep(0.1)
                    engine.kill()
                    await self.start_engine()
                    self.show()
                case 2:  # It is missing from one picture, and comes back with requests in flight.
                    self.show(hidden=[engine])
                    await asyncio.sleep(0.05 * chance.random())
                    self.show()
                case 3:  # It reads no more, for a while.
                    if chance.random() < 0.2:
                        engine.deaf = True
                        await asyncio.sleep(0.1)
                        engine.deaf = False
                        for side in list(engine.sides):
                            side.transport.abort()
                case 4:  # None is there, for a moment; perhaps the next is expected.
                    self.show(hidden=self.engines, starting=chance.random() < 0.5)
                    await asyncio.sleep(0.03 * chance.random())
                    self.show()
                case 5:
                    if len(self.engines) < 6:
                        await self.start_engine()
                        self.show()
                case 6:
                    if len(self.engines) > 3:
                        self.engines.remove(engine)
                        engine.kill()
                        self.show()
                case _:
                    self.show(weights={"r0": chance.randint(0, 100), "r1": chance.randint(0, 100)})

    # The books.

    def fault(self, plan, what):
        self.faults.append(f"{plan}: {what}")

    def on_end(self, record):
        """The gateway has made a record."""
        self.records += 1
        self.outcomes[record.outcome] += 1
        name = record.request_id.encode()
        if name in self.unseen:
            del self.unseen[name]
        elif name in self.pending and self.pending[name] is None:
            self.pending[name] = record
        else:
            self.faults.append(f"{name!r} has a second record, {record}")

    def saw_answer(self, plan, status):
        record = self.settle(plan)
        if record is not None and (
            record.status != status or (record.outcome is Outcome.OK) != (status == 200)
        ):
            self.fault(plan, f"the client saw {status}, and the record says {record}")

    def saw_broken(self, plan):
        record = self.settle(plan)
        if record is not None and record.outcome not in _FAILED:
            self.fault(plan, f"the client saw the answer break off, and the record says {record}")

    def settle(self, plan):
        record = self.pending.pop(plan.name)
        self.attempts.pop(plan.name, None)
        if record is None:
            self.fault(plan, "the answer has come to its end, and there is no record")
        return record

    def saw_nothing(self, plan, *, may_be_lost=False):
        """The client has left; the gateway notices when it does."""
        if self.pending.pop(plan.name) is None:
            self.unseen[plan.name] = may_be_lost or plan.client in MAY_BE_LOST

    # The clients.

    def more(self):
        """What to ask next on one connection; nothing at the end of a wave."""
        plans = []
        while self.next_number < self.wave_ends:
            plans.append(self.take())
            if plans[0].client != "asks twice at once" or len(plans) == 2:
                break
        return plans

    def take(self):
        taken = plan(self.seed, self.next_number)
        self.next_number += 1
        self.requests += 1
        self.pending[taken.name] = None
        return taken

    def client_closed(self):
        self.open_clients -= 1
        self.fill()

    def fill(self):
        while self.open_clients < _CLIENTS and (plans := self.more()):
            self.open_clients += 1
            task = asyncio.get_running_loop().create_task(self.connect(plans))
            task.add_done_callback(self.connected)
        if not self.open_clients:
            self.idle.set()

    async def connect(self, plans):
        await asyncio.get_running_loop().create_connection(
            lambda: Client(self, plans), "127.0.0.1", self.port
        )

    def connected(self, task):
        if task.exception() is not None:
            self.errors.append(repr(task.exception()))
            self.open_clients -= 1

    async def wave(self, requests):
        """So many requests, until each has its outcome and nothing is left over from them."""
        self.wave_ends += requests
        self.idle.clear()
        churn = asyncio.create_task(self.churn())
        self.fill()
        try:
            async with asyncio.timeout(30 + requests / 200):
                await self.idle.wait()
        except TimeoutError:
            self.errors.append(f"clients still wait for {list(self.pending)[:20]}")
        self.idle.set()
        await churn
        await self.settled()

    async def settled(self):
        """Wait for what ends by time: connections that idle, bounds on waits."""
        deadline_s = time.monotonic() + 10
        while self.left_over() and time.monotonic() < deadline_s:  # noqa: ASYNC110 - time brings it
            await asyncio.sleep(0.05)
        lost = [name for name, may_be_lost in self.unseen.items() if may_be_lost]
        for name in lost:
            del self.unseen[name]
            self.requests -= 1
        self.attempts.clear()

    def left_over(self):
        """All that should be gone when nobody asks for anything."""
        gc.collect()
        kinds = (Exchange, Attempt, ClientConnection, EngineConnection)
        left = collections.Counter(type(o).__name__ for o in gc.get_objects() if isinstance(o, kinds))
        left["engine sides"] = sum(len(engine.sides) for engine in self.engines)
        for service in self.table.services.values():
            left["queued"] = service.queue.queued
            instances = (*service.instances.values(), *service.departed.values())
            left["in flight"] = sum(i.in_flight for i in instances)
            # Opened ahead for requests that may come: these stay.
            ready = sum(len(pool_of(i, self.data_path)._idle) for i in service.instances.values())
            left["EngineConnection"] -= ready
            left["engine sides"] -= ready
        left["timers"] = sum(map(len, self.data_path.wheel._slots.values()))
        left["pending"] = len(self.pending)
        left.update(f"no record of {name!r}" for name, may_be_lost in self.unseen.items() if not may_be_lost)
        return +left


def memory_bytes():
    """What this process holds itself, swapped out or not; mapped files come and go as the kernel likes."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    sizes = {line.split()[0]: line.split()[1] for line in lines[1:]}
    return (int(sizes["Pss_Anon:"]) + int(sizes["SwapPss:"])) * 1024


def open_files():
    return len(os.listdir("/proc/self/fd"))


async def run(seed, requests, say):
    files = open_files()
    soak = Soak(seed)
    await soak.start()
    sizes, left = [], []
    for _ in range(_WAVES):
        await soak.wave(requests // _WAVES)
        sizes.append(memory_bytes())
        left.append(soak.left_over())
        say(f"{soak.requests} requests, {soak.records} records, {sizes[-1] / 1e6:.1f} MB")
    say(", ".join(f"{outcome} {count}" for outcome, count in soak.outcomes.most_common()))
    await soak.close()
    assert soak.faults[:_MOST_FAULTS_SHOWN] == []
    assert soak.errors[:_MOST_FAULTS_SHOWN] == []
    assert left == [{}] * _WAVES
    assert soak.records == soak.requests
    assert open_files() <= files + _FILES_OF_THE_LOOP
    # The first wave warms up; a cache that fills and empties makes each size differ by a little.
    assert min(sizes[-2:]) <= min(sizes[1:3]) * 1.05, sizes


def test_after_very_many_requests_with_faults_nothing_is_left_over(request, capsys):
    seed = request.config.getoption("--seed")
    requests = request.config.getoption("--requests")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))

    def say(text):
        with capsys.disabled():
            print(f"seed {seed}: {text}")

    uvloop.run(run(seed, requests, say))
