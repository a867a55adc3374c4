"""The gateway's routing table against a real API server, with EndpointSlices that the test writes."""

import asyncio
import contextlib
import urllib.parse

import pytest
from kubernetes.aio.client import Configuration
from tests.cluster.world import World, eventually

from stoker.gateway.discovery import Discovery, Place
from stoker.gateway.table import RoutingTable
from stoker.kube import access
from stoker.kube.client import Client
from stoker.kube.errors import InvalidError

GATEWAY = "stoker-gateway"


class Relay:
    """A TCP relay to the API server that can be cut."""

    def __init__(self, host, port):
        self._target = (host, port)
        self._open = set()
        self.closed = False
        """While true, connections are refused at once."""

    async def serve(self):
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def _relay(self, reader, writer):
        if self.closed:
            writer.transport.abort()
            return
        upstream_reader, upstream = await asyncio.open_connection(*self._target)
        self._open |= {writer, upstream}
        await asyncio.gather(_copy(reader, upstream), _copy(upstream_reader, writer))

    def cut(self):
        """Close all that is open, without a word."""
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    def end(self):
        self.cut()
        self._server.close()


async def _copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.fixture
async def world(api_server, namespace):
    async with Client(await access.load(str(api_server))) as client:
        yield World(client=client, namespace=namespace)


@pytest.fixture
async def relay(api_server):
    """A relay, and the configuration of one who reaches the API server through it."""
    configuration: Configuration = await access.load(str(api_server))
    url = urllib.parse.urlsplit(configuration.host)
    relay = Relay(url.hostname, url.port)
    port = await relay.serve()
    configuration.host = f"{url.scheme}://127.0.0.1:{port}"
    relay.configuration = configuration
    yield relay
    relay.end()


@contextlib.asynccontextmanager
async def discovering(configuration, namespace, *, service=GATEWAY, workers=1):
    """A routing table that follows the cluster through this configuration."""
    async with Client(configuration) as client:
        table = RoutingTable(draw=lambda: 0.5, on_wake=lambda _: None)
        place = Place(namespaces=(namespace,), own_namespace=namespace, own_service=service, workers=workers)
        discovery = Discovery(
            client, table, place, first_byte_timeout_s=600, on_change=lambda _: None, draw=lambda: 0.5
        )
        task = asyncio.create_task(discovery.run())
        try:
            await eventually(lambda: _ready(discovery), within_s=20)
            yield discovery, table
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _ready(discovery):
    assert discovery.ready, discovery.troubles()


def slice_of(namespace, *endpoints, name="chat-1", of="chat"):
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {"kubernetes.io/service-name": of, "serving.stoker.dev/service": of},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8000}],
        "endpoints": list(endpoints),
    }


def endpoint(pod, address, **conditions):
    return {
        "addresses": [address],
        "conditions": {"ready": True, "serving": True, "terminating": False} | conditions,
        "targetRef": {"kind": "Pod", "name": pod},
    }


async def write(world, *endpoints, **names):
    return await world.client.apply(slice_of(world.namespace, *endpoints, **names), field_manager="test")


def instances(table, model="chat"):
    """Pods that get requests of a model, and whether they leave; None if the model is not served."""
    route = table.find(model)
    return route and {i.name: i.leaving for i in route.service.instances.values()}


async def becomes(table, expected, *, within_s=5, model="chat"):
    async def check():
        assert instances(table, model) == expected

    await eventually(check, within_s=within_s, poll_s=0.01)


async def test_services_and_instances_appear_change_and_go(world, relay):
    async with discovering(relay.configuration, world.namespace) as (_, table):
        assert table.models() == []
        model = {**world.spec["model"], "name": "qwen", "aliases": ["assistant"]}
        await world.apply(model=model, queue={"maxRequests": 7})
        await becomes(table, {}, model="qwen")
        await write(world, endpoint("a", "10.0.0.1"), endpoint("b", "10.0.0.2", ready=False))
        await becomes(table, {"a": False, "b": True}, model="assistant")
        assert table.find("chat") is None
        assert table.find(f"{world.namespace}/qwen").service.queue.max_requests == 7
        service = await world.service()
        await world.client.delete(service)
        await becomes(table, None, model="qwen")


async def test_a_deletion_that_the_watch_missed_is_known_after_one_list(world, relay):
    """Case G2."""
    await world.apply()
    await write(world, endpoint("a", "10.0.0.1"))
    gone = await write(world, endpoint("b", "10.0.0.2"), name="chat-2")
    async with discovering(relay.configuration, world.namespace) as (_, table):
        await becomes(table, {"a": False, "b": False})
        relay.closed = True
        relay.cut()
        await world.client.delete(gone)
        await asyncio.sleep(1)
        assert instances(table) == {"a": False, "b": False}
        relay.closed = False
        await becomes(table, {"a": False}, within_s=12)


async def test_a_watch_that_is_cut_again_and_again_shows_what_is_there(world, relay):
    await world.apply()
    async with discovering(relay.configuration, world.namespace) as (_, table):
        for number in range(4):
            written = await write(world, endpoint(f"pod-{number}", f"10.0.0.{number + 1}"))
            relay.cut()
        assert len(written["endpoints"]) == 1
        await becomes(table, {"pod-3": False}, within_s=12)


async def test_an_address_that_is_gone_gets_no_requests(world, relay):
    """Case G3: the API server itself refuses an empty address, so an evicted pod leaves the slice."""
    await world.apply()
    await write(world, endpoint("a", "10.0.0.1"), endpoint("b", "10.0.0.2"))
    async with discovering(relay.configuration, world.namespace) as (_, table):
        await becomes(table, {"a": False, "b": False})
        with pytest.raises(InvalidError, match="addresses"):
            await write(world, endpoint("a", "10.0.0.1"), endpoint("b", "") | {"addresses": []})
        await write(world, endpoint("a", "10.0.0.1"))
        await becomes(table, {"a": False})


async def test_a_terminating_pod_gets_no_new_requests_and_keeps_those_it_has(world, relay):
    """Case G4."""
    await world.apply()
    await write(world, endpoint("a", "10.0.0.1"))
    async with discovering(relay.configuration, world.namespace) as (_, table):
        await becomes(table, {"a": False})
        (instance,) = table.find("chat").service.instances.values()
        ticket = instance.acquire(0.0)
        await write(world, endpoint("a", "10.0.0.1", ready=False, terminating=True))
        await becomes(table, {"a": True})
        assert not instance.usable(0.0)
        assert instance.in_flight == 1
        await write(world)
        await becomes(table, {})
        assert instance in table.find("chat").service.departed.values()
        assert (instance.in_flight, ticket) == (1, 0)


async def test_without_an_api_server_it_goes_on_with_what_it_knows(world, relay):
    await world.apply()
    await write(world, endpoint("a", "10.0.0.1"))
    async with discovering(relay.configuration, world.namespace) as (discovery, table):
        await becomes(table, {"a": False})
        relay.closed = True
        relay.cut()

        async def in_trouble():
            assert len(discovery.troubles()) == 3

        await eventually(in_trouble, within_s=10)
        assert discovery.ready
        assert instances(table) == {"a": False}


async def test_replicas_are_those_of_its_own_service_that_are_ready(world, relay):
    await world.apply(queue={"maxRequests": 12})
    own = {"of": GATEWAY, "name": "gateway-1"}
    async with discovering(relay.configuration, world.namespace, workers=2) as (discovery, table):

        async def share(replicas, requests):
            assert discovery.replicas == replicas
            assert table.find("chat").service.queue.max_requests == requests

        await eventually(lambda: share(2, 6), within_s=5)
        await write(world, *(endpoint(f"gw-{n}", f"10.1.0.{n + 1}") for n in range(3)), **own)
        await eventually(lambda: share(6, 2), within_s=5)
        await write(world, endpoint("gw-0", "10.1.0.1"), endpoint("gw-1", "10.1.0.2", ready=False), **own)
        await eventually(lambda: share(2, 6), within_s=5)


async def test_what_an_instance_serves_is_in_the_status(world, relay):
    service = await world.apply()
    await write(world, endpoint("chat-b-1-x", "10.0.0.1"), endpoint("chat-a-1-x", "10.0.0.2"))
    status = {
        "observedGeneration": 1,
        "modelVersion": "v1",
        "capacity": {"requestsPerInstance": 9},
        "revisions": [
            {"name": "chat-b", "phase": "Candidate", "modelRevision": "v2"},
            {"name": "chat-a", "phase": "Serving", "modelRevision": "v1"},
        ],
        "traffic": [{"revision": "chat-a", "weight": 90}, {"revision": "chat-b", "weight": 10}],
    }
    identity = {key: service[key] for key in ("apiVersion", "kind")}
    metadata = {"namespace": world.namespace, "name": "chat"}
    async with discovering(relay.configuration, world.namespace) as (_, table):
        await becomes(table, {"chat-b-1-x": False, "chat-a-1-x": False})
        await world.client.apply(
            identity | {"metadata": metadata, "status": status}, field_manager="test", subresource="status"
        )

        async def known():
            found = table.find("chat").service
            assert found.state.weights == {"chat-a": 90, "chat-b": 10}
            assert {(i.revision, i.model_version, i.limit) for i in found.instances.values()} == {
                ("chat-b", "v2", 9),
                ("chat-a", "v1", 9),
            }

        await eventually(known, within_s=5)
