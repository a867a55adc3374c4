import asyncio

import pytest
from aiohttp import ClientSession, web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from stoker.controller import gateway_load
from stoker.controller.gateway_load import LoadMetrics, addresses, follow_replicas
from stoker.core.load import InstanceLoad, ReplicaLoad, add_up
from stoker.kube.errors import RetryError
from stoker.signals.gateway import GatewayLoads


def endpoint(*hosts, ready=True):
    return {"addresses": list(hosts), "conditions": {"ready": ready}}


@pytest.mark.parametrize(
    ("slices", "ports", "expected"),
    [
        pytest.param([], (8080,), set(), id="no slices, no replicas"),
        pytest.param([{"endpoints": None}, {}], (8080,), set(), id="slices without endpoints"),
        pytest.param(
            [{"endpoints": [endpoint("10.0.0.1")]}, {"endpoints": [endpoint("10.0.0.2", ready=False)]}],
            (8080,),
            {"10.0.0.1:8080", "10.0.0.2:8080"},
            id="of all slices, and those that drain too",
        ),
        pytest.param(
            [{"endpoints": [endpoint("10.0.0.1")]}],
            (8080, 8081),
            {"10.0.0.1:8080", "10.0.0.1:8081"},
            id="each process of a pod",
        ),
        pytest.param([{"endpoints": [endpoint("fd00::1")]}], (8080,), {"[fd00::1]:8080"}, id="IPv6"),
    ],
)
def test_the_replicas_are_where_the_slices_say(slices, ports, expected):
    assert addresses(slices, ports) == expected


class Loads:
    """What was heard, as a test says."""

    def __init__(self, loads=None, replicas=(0, 0)):
        self._loads = loads or {}
        self._replicas = replicas
        self.followed = []

    def services(self):
        return set(self._loads)

    def load(self, key):
        return self._loads[key]

    def replicas(self):
        return self._replicas

    def follow(self, addresses):
        self.followed.append(addresses)


def samples(loads):
    registry = CollectorRegistry()
    registry.register(LoadMetrics(loads))
    text = generate_latest(registry).decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_load_of_each_service_is_a_metric():
    busy = ReplicaLoad(
        waiting=7,
        oldest_wait_s=2.5,
        woken_ago_s=None,
        instances=(InstanceLoad(name="a", revision="r1", in_flight=3, limit=4, usable=True),),
    )
    loads = Loads({("demo", "chat"): add_up([busy], silent=1, totals={("arrived",): 42.0})}, replicas=(1, 1))
    labels = (("namespace", "demo"), ("service", "chat"))
    assert samples(loads) == {
        ("stoker_service_queued_requests", *labels): 7,
        ("stoker_service_oldest_wait_seconds", *labels): 2.5,
        ("stoker_service_in_flight_requests", *labels): 3,
        ("stoker_service_arrived_requests_total", *labels): 42,
        ("stoker_gateway_replicas", ("state", "heard")): 1,
        ("stoker_gateway_replicas", ("state", "silent")): 1,
    }


def test_a_service_that_nobody_speaks_of_has_no_series():
    assert set(samples(Loads({("demo", "chat"): None}))) == {
        ("stoker_gateway_replicas", ("state", "heard")),
        ("stoker_gateway_replicas", ("state", "silent")),
    }


class Client:
    """Answers lists with what it is told, then never again."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.done = asyncio.Event()

    async def list(self, resource, **where):
        if not self.answers:
            self.done.set()
            await asyncio.Event().wait()
        self.asked.append((resource.plural, where))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_replicas_are_followed_and_kept_while_the_api_server_is_away(monkeypatch):
    monkeypatch.setattr(gateway_load, "_EVERY_S", 0.0)
    client = Client(
        [{"endpoints": [endpoint("10.0.0.1")]}],
        RetryError("listing endpointslices", "busy"),
        [{"endpoints": [endpoint("10.0.0.1", "10.0.0.2")]}],
    )
    loads = Loads()
    following = asyncio.create_task(
        follow_replicas(loads, client, namespace="stoker-system", service="stoker-gateway", ports=[8080])
    )
    async with asyncio.timeout(5):
        await client.done.wait()
    following.cancel()
    assert loads.followed == [{"10.0.0.1:8080"}, {"10.0.0.1:8080", "10.0.0.2:8080"}]
    assert client.asked[0] == (
        "endpointslices",
        {"namespace": "stoker-system", "label_selector": "kubernetes.io/service-name=stoker-gateway"},
    )


async def test_a_replica_that_the_slices_name_is_read(unused_tcp_port):
    asked = asyncio.Event()

    async def answer(request):
        asked.set()
        return web.Response()

    application = web.Application()
    application.router.add_get("/load", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", unused_tcp_port).start()
    client = Client([{"endpoints": [endpoint("127.0.0.1")]}])
    async with ClientSession() as session:
        loads = GatewayLoads(session, clock=asyncio.get_running_loop().time)
        following = asyncio.create_task(
            follow_replicas(loads, client, namespace="s", service="gateway", ports=[unused_tcp_port])
        )
        async with asyncio.timeout(5):
            await asked.wait()
        following.cancel()
        loads.close()
    await runner.cleanup()
