"""`stoker gateway` as a process, with its own rights, on the cluster's own EndpointSlices."""

import asyncio
import base64
import contextlib
import os
import signal
import socket
import sys
import time
import uuid
from pathlib import Path

import aiohttp
import pytest
import yaml
from aiohttp import web
from tests.cluster.gateway_process import gateway_kubeconfig, start_gateway
from tests.cluster.operator_process import account_kubeconfig
from tests.cluster.world import World, eventually

from stoker.kube import access
from stoker.kube.client import Client

READY_TO_FIRST_REQUEST_S = 1.0
START_CPU_S = 1.0
CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hello"}]}


def own_address():
    """An address of this machine that an EndpointSlice may have; loopback it may not."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", 9))
        return probe.getsockname()[0]


class Engine:
    """Answers chat requests; a stream goes on until `finish` is set."""

    def __init__(self):
        self.asked_at_s = []
        self.finish = asyncio.Event()
        self.streaming = asyncio.Event()

    async def chat(self, request):
        self.asked_at_s.append(time.monotonic())
        body = await request.json()
        if not body.get("stream"):
            return web.json_response({"choices": [], "model": body["model"]})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n')
        self.streaming.set()
        await self.finish.wait()
        await response.write(b"data: [DONE]\n\n")
        return response


@pytest.fixture
async def engine():
    engine = Engine()
    application = web.Application()
    application.router.add_post("/v1/chat/completions", engine.chat)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    engine.host = own_address()
    site = web.TCPSite(runner, engine.host, 0)
    await site.start()
    engine.port = site._server.sockets[0].getsockname()[1]
    yield engine
    await runner.cleanup()


@pytest.fixture
async def world(api_server, namespace):
    async with Client(await access.load(str(api_server))) as client:
        yield World(client=client, namespace=namespace)


@pytest.fixture
def kubeconfig(api_server, kubectl, tmp_path, namespace):
    return gateway_kubeconfig(api_server, kubectl, tmp_path, namespace=namespace, watched=None)


@pytest.fixture
def start(kubeconfig, tmp_path, namespace):
    started = []

    def start(*, workers=1, **settings):
        gateway = start_gateway(
            settings.pop("kubeconfig", kubeconfig),
            tmp_path,
            watch_namespaces=namespace,
            namespace=namespace,
            service="stoker-gateway",
            workers=workers,
            **settings,
        )
        started.append(gateway)
        return gateway

    yield start
    for gateway in started:
        if gateway.process.poll() is None:
            gateway.process.kill()
            gateway.process.wait()


async def serve(world, engine, *, desired=1):
    """A service that the engine serves, by an EndpointSlice that is written here."""
    service = await world.apply()
    await say(world, service, {"scaling": {"desired": desired}})
    await world.client.apply(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "namespace": world.namespace,
                "name": "chat-1",
                "labels": {"kubernetes.io/service-name": "chat", "serving.stoker.dev/service": "chat"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": engine.port}],
            "endpoints": [
                {
                    "addresses": [engine.host],
                    "conditions": {"ready": True},
                    "targetRef": {"kind": "Pod", "name": "chat-5f3a9c01-abc-xyz"},
                }
            ],
        },
        field_manager="test",
    )


async def say(world, service, status):
    metadata = {key: service["metadata"][key] for key in ("namespace", "name")}
    identity = {key: service[key] for key in ("apiVersion", "kind")}
    await world.client.apply(
        identity | {"metadata": metadata, "status": {"observedGeneration": 1} | status},
        field_manager="test",
        subresource="status",
    )


async def ask(session, gateway, **fields):
    async with session.post(f"{gateway.url}/v1/chat/completions", json=CHAT | fields) as answer:
        return answer.status, await answer.json(), answer.headers


async def test_the_first_request_goes_to_an_instance_within_a_second_of_its_ready(
    world, engine, start, kubectl
):
    """With the cluster's own controller between the pod and its EndpointSlice."""
    service = await world.apply()
    await say(world, service, {"scaling": {"desired": 1}})
    labels = {"serving.stoker.dev/service": "chat"}
    node = f"node-{uuid.uuid4().hex[:8]}"
    manifests = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "chat", "namespace": world.namespace, "labels": labels},
            "spec": {
                "selector": labels,
                "ports": [{"name": "http", "port": 80, "targetPort": engine.port}],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "chat-1", "namespace": world.namespace, "labels": labels},
            "spec": {
                "nodeName": node,
                "automountServiceAccountToken": False,
                "containers": [{"name": "engine", "image": "none"}],
            },
        },
    ]
    for manifest in manifests:
        kubectl("apply", "-f", "-", stdin=manifest)
    gateway = start()
    gateway.wait_until_ready()
    try:
        async with aiohttp.ClientSession() as session:
            waiting = asyncio.create_task(ask(session, gateway))
            await asyncio.sleep(0.5)
            assert not waiting.done()
            assert engine.asked_at_s == []
            address = engine.host
            await world.client.apply(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"namespace": world.namespace, "name": "chat-1"},
                    "status": {
                        "phase": "Running",
                        "podIP": address,
                        "podIPs": [{"ip": address}],
                        "conditions": [{"type": "Ready", "status": "True"}],
                    },
                },
                field_manager="kubelet",
                subresource="status",
            )
            ready_at_s = time.monotonic()
            status, body, headers = await asyncio.wait_for(waiting, 10)
    finally:
        kubectl("delete", "node", node)
    assert (status, body["model"]) == (200, "chat")
    assert headers["x-stoker-instance"] == "chat-1"
    assert engine.asked_at_s[0] - ready_at_s <= READY_TO_FIRST_REQUEST_S


async def test_a_running_stream_outlives_the_order_to_stop_and_new_clients_are_sent_away(
    world, engine, start
):
    await serve(world, engine)
    gateway = start(drain_delay_seconds=1)
    gateway.wait_until_ready()
    async with aiohttp.ClientSession() as session:
        chat = f"{gateway.url}/v1/chat/completions"
        async with session.post(chat, json=CHAT | {"stream": True}) as stream:
            assert stream.status == 200
            await engine.streaming.wait()
            gateway.stop()

            async def not_ready():
                assert (await asyncio.to_thread(gateway.admin, "/readyz"))[0] == 503

            await eventually(not_ready, within_s=5)
            # For a moment requests still come, and are served, for the last time on their connection.
            status, _, headers = await ask(session, gateway)
            assert status == 200
            assert headers["connection"] == "close"

            async def closed():
                with pytest.raises(aiohttp.ClientConnectorError):
                    await ask(session, gateway)

            await eventually_closed(closed)
            assert gateway.process.poll() is None
            engine.finish.set()
            assert (await stream.read()).endswith(b"data: [DONE]\n\n")
    assert await asyncio.to_thread(gateway.wait) == 0


async def eventually_closed(closed):
    """Until a connection is refused; until then answers are as good."""
    give_up_at_s = time.monotonic() + 10
    while True:
        try:
            return await closed()
        except (pytest.fail.Exception, aiohttp.ServerDisconnectedError):
            assert time.monotonic() < give_up_at_s
            await asyncio.sleep(0.05)


async def test_a_stream_that_takes_longer_than_the_bound_is_cut_and_one_that_waits_is_told(
    world, engine, start
):
    await serve(world, engine)
    await world.apply(name="other")
    await say(world, await world.service("other"), {"scaling": {"desired": 1}})
    gateway = start(drain_seconds=2)
    gateway.wait_until_ready()
    async with aiohttp.ClientSession() as session:
        chat = f"{gateway.url}/v1/chat/completions"
        waiting = asyncio.create_task(ask(session, gateway, model="other"))
        async with session.post(chat, json=CHAT | {"stream": True}) as stream:
            await engine.streaming.wait()
            assert not waiting.done()
            gateway.stop()
            status, body, headers = await waiting
            assert (status, body["error"]["code"]) == (503, "draining")
            assert int(headers["retry-after"]) >= 1
            with pytest.raises(aiohttp.ClientPayloadError):
                await stream.read()
    assert await asyncio.to_thread(gateway.wait) == 0


async def test_the_gateway_only_lists_and_watches(world, engine, start):
    await serve(world, engine)
    gateway = start()
    gateway.wait_until_ready()
    _, page = gateway.admin("/metrics")
    calls = [line for line in page.splitlines() if line.startswith("stoker_api_requests_total{")]
    used = {tuple(word.split('"')[1] for word in line.partition("{")[2].split(",")[:3]) for line in calls}
    # By label: the status, what it is about, and the verb.
    assert used == {
        ("200", resource, verb)
        for resource in ("inferenceservices", "endpointslices")
        for verb in ("list", "watch")
    }


async def test_workers_share_the_port_and_one_that_dies_young_takes_all_with_it(world, engine, start):
    await serve(world, engine)
    gateway = start(workers=2)
    gateway.wait_until_ready(workers=2)
    for _ in range(8):
        async with aiohttp.ClientSession() as session:
            assert (await ask(session, gateway))[0] == 200
    children = gateway.children()
    assert len(children) == 2
    os.kill(children[0], signal.SIGKILL)
    assert await asyncio.to_thread(gateway.wait) == 1
    assert "a worker ended" in gateway.log.read_text()


async def test_all_workers_end_with_the_order_to_stop(world, engine, start):
    await serve(world, engine)
    gateway = start(workers=2)
    gateway.wait_until_ready(workers=2)
    gateway.stop()
    assert await asyncio.to_thread(gateway.wait) == 0


async def test_without_rights_it_is_not_ready_and_says_why(world, start, kubectl, tmp_path, api_server):
    folder = {"account": "nobody", "namespace": world.namespace, "rules": {}}
    gateway = start(kubeconfig=account_kubeconfig(api_server, kubectl, tmp_path, **folder))

    async def says_why():
        status, text = await asyncio.to_thread(gateway.admin, "/readyz")
        assert status == 503
        assert "cannot list resource" in text

    await eventually(says_why, within_s=30)
    gateway.stop()
    assert await asyncio.to_thread(gateway.wait) == 0


AS_IN_A_POD = """
import sys
from pathlib import Path
from stoker.kube import pod_account
pod_account.FOLDER = Path(sys.argv.pop(1))
from stoker.cli import main
main()
"""


async def test_in_a_pod_it_serves_after_less_than_a_second_of_work(
    world, engine, start, kubeconfig, tmp_path
):
    """Processor time, not time by the clock: other tests may run beside this one."""
    await serve(world, engine)
    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / "token").write_text(config["users"][0]["user"]["token"])
    (folder / "ca.crt").write_bytes(_authority(cluster))
    host, _, port = cluster["server"].removeprefix("https://").partition(":")
    gateway = start(
        kubeconfig="",
        command=[sys.executable, "-c", AS_IN_A_POD, str(folder), "gateway"],
        environment={"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port},
    )
    gateway.wait_until_ready()
    assert gateway.cpu_s() <= START_CPU_S
    async with aiohttp.ClientSession() as session:
        assert (await ask(session, gateway))[0] == 200
    assert "pydantic_core" not in gateway.maps()


def _authority(cluster):

    with contextlib.suppress(KeyError):
        return base64.b64decode(cluster["certificate-authority-data"])
    return Path(cluster["certificate-authority"]).read_bytes()
