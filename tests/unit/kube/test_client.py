"""The client against a real HTTP server on loopback that answers as an API server would."""

import json

import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration
from prometheus_client import REGISTRY

from stoker.kube import client as client_module
from stoker.kube.client import Client
from stoker.kube.errors import AbsentError, ConflictError, InvalidError, RetryError
from stoker.kube.resources import DEPLOYMENTS, INFERENCE_SERVICES, LEASES, PODS

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"namespace": "demo", "name": "chat-5f3a9c01", "uid": "u1"},
    "spec": {"replicas": 1},
}


class Server:
    """Answers with what it was told, in order, and keeps what it was asked."""

    def __init__(self):
        self.answers = []
        self.asked = []

    def will_answer(self, status, body=None, **headers):
        self.answers.append((status, body, headers))

    async def handle(self, request):
        self.asked.append((request.method, request.path_qs, request.headers, await request.text()))
        status, body, headers = self.answers.pop(0)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        text = body if isinstance(body, str) else json.dumps(body or {})
        return web.Response(status=status, text=text, headers=headers)


@pytest.fixture
async def server():
    server = Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    yield server
    await runner.cleanup()


@pytest.fixture
async def client(server, monkeypatch):
    monkeypatch.setattr(client_module, "_FIRST_PAUSE_S", 0.001)
    configuration = Configuration(host=server.url)
    configuration.api_key["BearerToken"] = "Bearer secret"
    async with Client(configuration) as client:
        yield client


def refusal(message):
    return {"kind": "Status", "status": "Failure", "message": message}


async def test_reads_an_object_as_whom_it_was_told_to_be(client, server):
    server.will_answer(200, DEPLOYMENT)
    assert await client.get(DEPLOYMENTS, namespace="demo", name="chat-5f3a9c01") == DEPLOYMENT
    method, path, headers, _ = server.asked[0]
    assert (method, path) == ("GET", "/apis/apps/v1/namespaces/demo/deployments/chat-5f3a9c01")
    assert headers["Authorization"] == "Bearer secret"


async def test_an_object_that_is_not_there_is_none(client, server):
    server.will_answer(404, refusal("not found"))
    assert await client.get(PODS, namespace="demo", name="chat") is None


async def test_a_name_cannot_leave_its_place_in_the_path(client, server):
    server.will_answer(404, refusal("not found"))
    await client.get(PODS, namespace="demo", name="../../secrets")
    assert server.asked[0][1] == "/api/v1/namespaces/demo/pods/..%2F..%2Fsecrets"


async def test_lists_all_pages_and_completes_the_items(client, server):
    server.will_answer(200, {"metadata": {"continue": "next"}, "items": [{"metadata": {"name": "a"}}]})
    server.will_answer(200, {"metadata": {}, "items": [{"metadata": {"name": "b"}}]})
    pods = await client.list(PODS, namespace="demo", label_selector="app=chat")
    assert [(pod["kind"], pod["metadata"]["name"]) for pod in pods] == [("Pod", "a"), ("Pod", "b")]
    assert (
        server.asked[1][1] == "/api/v1/namespaces/demo/pods?limit=500&labelSelector=app%3Dchat&continue=next"
    )


async def test_an_empty_list_may_say_null(client, server):
    server.will_answer(200, {"metadata": {}, "items": None})
    assert await client.list(PODS, namespace="demo", metadata_only=True) == []


async def test_lists_all_namespaces_and_metadata_alone_on_request(client, server):
    server.will_answer(200, {"metadata": {}, "items": []})
    await client.list(INFERENCE_SERVICES, namespace=None, metadata_only=True)
    _, path, headers, _ = server.asked[0]
    assert path == "/apis/serving.stoker.dev/v1alpha1/inferenceservices?limit=500"
    assert "PartialObjectMetadataList" in headers["Accept"]


async def test_applies_with_its_field_manager(client, server):
    server.will_answer(200, DEPLOYMENT)
    await client.apply(DEPLOYMENT, field_manager="stoker", subresource="status")
    method, path, headers, body = server.asked[0]
    assert method == "PATCH"
    assert path.endswith("/deployments/chat-5f3a9c01/status?fieldManager=stoker&force=true")
    assert headers["Content-Type"] == "application/apply-patch+yaml"
    assert json.loads(body) == DEPLOYMENT


async def test_deletes_the_very_object_that_was_seen(client, server):
    server.will_answer(200)
    await client.delete(DEPLOYMENT)
    method, _, _, body = server.asked[0]
    assert method == "DELETE"
    assert json.loads(body)["preconditions"] == {"uid": "u1"}


async def test_deleting_what_is_gone_is_fine(client, server):
    server.will_answer(404, refusal("not found"))
    await client.delete(DEPLOYMENT)


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        pytest.param(409, "the object has been modified", ConflictError, id="a conflict"),
        pytest.param(404, "namespaces demo not found", AbsentError, id="a namespace that is not there"),
        pytest.param(422, "spec.replicas: must be >= 0", InvalidError, id="an object that is refused"),
        pytest.param(403, "exceeded quota: gpus", InvalidError, id="a quota"),
        pytest.param(403, "namespace demo is being terminated", RetryError, id="a namespace on its way out"),
    ],
)
async def test_an_answer_becomes_an_error_for_who_must_act(client, server, status, message, expected):
    for _ in range(3):
        server.will_answer(status, refusal(message))
    with pytest.raises(expected, match=f"applying Deployment demo/chat-5f3a9c01: {message}"):
        await client.apply(DEPLOYMENT, field_manager="stoker")


@pytest.mark.parametrize("status", [429, 500, 503, 401])
async def test_what_the_server_could_not_do_is_tried_again(client, server, status):
    server.will_answer(status, refusal("too busy"))
    server.will_answer(200, DEPLOYMENT)
    assert await client.apply(DEPLOYMENT, field_manager="stoker") == DEPLOYMENT


async def test_a_server_that_stays_busy_is_an_error_in_the_end(client, server):
    for _ in range(3):
        server.will_answer(503, "upstream connect error")
    with pytest.raises(RetryError, match="upstream connect error"):
        await client.get(PODS, namespace="demo", name="chat")
    assert len(server.asked) == 3


async def test_a_long_retry_after_is_left_to_the_queue(client, server):
    server.will_answer(429, refusal("slow down"), Retry_After="30")
    with pytest.raises(RetryError) as raised:
        await client.get(PODS, namespace="demo", name="chat")
    assert raised.value.retry_after_s == 30


async def test_a_conflict_is_not_tried_again(client, server):
    server.will_answer(409, refusal("it exists"))
    lease = {
        "apiVersion": LEASES.api_version,
        "kind": "Lease",
        "metadata": {"namespace": "stoker", "name": "stoker-operator"},
    }
    with pytest.raises(ConflictError, match="creating Lease stoker/stoker-operator"):
        await client.create(lease)
    assert len(server.asked) == 1


async def test_no_server_is_an_error_for_later(unused_tcp_port, monkeypatch):
    monkeypatch.setattr(client_module, "_FIRST_PAUSE_S", 0.001)
    async with Client(Configuration(host=f"http://127.0.0.1:{unused_tcp_port}")) as client:
        with pytest.raises(RetryError, match="the API server did not answer"):
            await client.get(PODS, namespace="demo", name="chat")


async def test_every_request_is_counted(client, server):
    labels = {"verb": "get", "resource": "pods", "code": "200"}
    before = REGISTRY.get_sample_value("stoker_api_requests_total", labels) or 0
    server.will_answer(200)
    await client.get(PODS, namespace="demo", name="chat")
    assert REGISTRY.get_sample_value("stoker_api_requests_total", labels) == before + 1
