import asyncio
import json

import pytest

from stoker_serving.middleware import Admission
from stoker_serving.shared_state import PATH_VARIABLE, SharedState


@pytest.fixture
def state(monkeypatch, request):
    state = SharedState.create(max_requests=getattr(request, "param", None))
    monkeypatch.setenv(PATH_VARIABLE, str(state.path))
    yield state
    state.close()


class Client:
    """Sends one request to an ASGI app and keeps what comes back."""

    def __init__(self, app, *, path="/v1/completions", method="POST", kind="http"):
        self.sent = []
        self.got = asyncio.Event()
        scope = {"type": kind, "method": method, "path": path}
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self):
        return {"type": "http.request", "body": b"{}"}

    async def _send(self, message):
        self.sent.append(message)
        self.got.set()

    @property
    def status(self):
        return self.sent[0]["status"]

    @property
    def headers(self):
        return dict(self.sent[0]["headers"])

    @property
    def error(self):
        return json.loads(self.sent[1]["body"])["error"]


def streaming(released, *, status=200, bodies=(b"data: 1\n\n",)):
    """An app that streams `bodies` and then waits for `released` before it ends the response."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": status, "headers": []})
        for body in bodies:
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await released.wait()
        await send({"type": "http.response.body", "body": b""})

    return app


async def test_a_stream_counts_until_it_ends(state):
    released = asyncio.Event()
    client = Client(Admission(streaming(released)))
    await client.got.wait()
    assert state.in_flight == 1
    released.set()
    await client.task
    assert state.in_flight == 0


async def test_a_client_that_leaves_and_an_app_that_fails_count_no_more(state):
    async def failing(scope, receive, send):
        raise ZeroDivisionError

    client = Client(Admission(streaming(asyncio.Event())))
    await client.got.wait()
    client.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await client.task
    with pytest.raises(ZeroDivisionError):
        await Client(Admission(failing)).task
    assert state.in_flight == 0


@pytest.mark.parametrize(
    ("path", "method", "counts"),
    [
        ("/v1/chat/completions", "POST", True),
        ("/v1/embeddings", "POST", True),
        ("/invocations", "POST", True),
        ("/v1/models", "GET", False),
        ("/health", "GET", False),
        ("/metrics", "GET", False),
        ("/tokenize", "POST", False),
        ("/v1/load_lora_adapter", "POST", False),
        ("/v1/responses/resp_1/cancel", "POST", False),
    ],
)
async def test_o8_only_requests_for_the_model_are_load(state, path, method, counts):
    released = asyncio.Event()
    client = Client(Admission(streaming(released)), path=path, method=method)
    await client.got.wait()
    assert state.in_flight == (1 if counts else 0)
    assert (state.last_token_ns > 0) is counts
    released.set()
    await client.task


@pytest.mark.parametrize(
    ("status", "bodies", "token"),
    [
        pytest.param(200, [b"data: 1\n\n"], True, id="a piece of an answer"),
        pytest.param(200, [b": keep-alive\n\n"], False, id="a keep-alive comment is not"),
        pytest.param(400, [b'{"error": {}}'], False, id="an error is not"),
        pytest.param(200, [], False, id="a head without a body is not"),
    ],
)
async def test_what_is_a_sign_of_life(state, status, bodies, token):
    released = asyncio.Event()
    client = Client(Admission(streaming(released, status=status, bodies=bodies)))
    await client.got.wait()
    await asyncio.sleep(0)
    assert (state.last_token_ns > 0) is token
    released.set()
    await client.task


async def test_while_it_leaves_new_requests_are_refused_and_running_ones_go_on(state):
    released = asyncio.Event()
    admission = Admission(streaming(released))
    running = Client(admission)
    await running.got.wait()
    state.refuse()
    refused = Client(admission)
    await refused.task
    assert refused.status == 503
    assert refused.headers[b"retry-after"] == b"1"
    assert refused.headers[b"connection"] == b"close"
    assert refused.error["code"] == "draining"
    assert set(refused.error) == {"message", "type", "param", "code"}
    assert not running.task.done()
    released.set()
    await running.task
    assert running.status == 200
    assert running.sent[-1] == {"type": "http.response.body", "body": b""}


@pytest.mark.parametrize("leaving", [False, True])
async def test_an_answer_closes_its_connection_from_the_moment_the_instance_leaves(state, leaving):
    released = asyncio.Event()
    released.set()
    if leaving:
        state.leave()
    answered = Client(Admission(streaming(released)))
    await answered.task
    assert answered.status == 200
    assert (answered.headers.get(b"connection") == b"close") is leaving


async def test_each_answer_says_how_many_requests_the_instance_works_on(state):
    released = asyncio.Event()
    admission = Admission(streaming(released))
    clients = []
    for _ in range(3):
        clients.append(Client(admission))
        await clients[-1].got.wait()
    assert [c.headers[b"x-stoker-in-flight"] for c in clients] == [b"1", b"2", b"3"]
    released.set()
    for client in clients:
        await client.task
    page = Client(admission, path="/metrics", method="GET")
    await page.task
    assert b"x-stoker-in-flight" not in page.headers


async def test_while_it_refuses_the_engines_own_pages_still_answer(state):
    released = asyncio.Event()
    released.set()
    admission = Admission(streaming(released))
    state.refuse()
    page = Client(admission, path="/metrics", method="GET")
    await page.task
    assert page.status == 200


@pytest.mark.parametrize("state", [2], indirect=True)
async def test_over_the_limit_a_request_gets_429_and_when_to_come_back(state):
    released = asyncio.Event()
    admission = Admission(streaming(released))
    running = [Client(admission), Client(admission)]
    for client in running:
        await client.got.wait()
    refused = Client(admission)
    await refused.task
    assert refused.status == 429
    assert int(refused.headers[b"retry-after"]) >= 1
    assert b"connection" not in refused.headers
    assert refused.error["code"] == "instance_full"
    released.set()
    for client in running:
        await client.task
    admitted = Client(admission)
    await admitted.task
    assert admitted.status == 200


async def test_a_refused_websocket_is_closed_with_try_again_later(state):
    state.refuse()
    client = Client(Admission(streaming(asyncio.Event())), kind="websocket", path="/v1/realtime")
    await client.task
    assert client.sent == [{"type": "websocket.close", "code": 1013, "reason": "draining"}]


async def test_lifespan_passes_through(state):
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    await Client(Admission(app), kind="lifespan").task
    assert seen == ["lifespan"]
