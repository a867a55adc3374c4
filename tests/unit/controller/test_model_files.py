"""The reader against a model hub on loopback, and an API server that has one Secret."""

import asyncio
import base64
import json

import pytest
from aiohttp import web as http
from kubernetes.aio.client import Configuration
from tests.unit.clock import Clock
from tests.unit.core.capacity.real_models import config
from tests.unit.fetch.model_folders import EMBEDDING, safetensors
from tests.unit.web_server import Fault

from stoker.api.reasons import Reason
from stoker.controller.model_files import ModelFilesReader, credentials_of
from stoker.controller.queue import Key
from stoker.core.model import ModelFacts, ModelToRead, Refusal
from stoker.core.sources import parse_source
from stoker.fetch import model_files
from stoker.fetch.guard import AddressGuard
from stoker.fetch.retry import Retry
from stoker.kube.client import Client

KEY = Key("demo", "chat")
COMMIT = "a09a35458c702b33eeacc393d103063234e8bc28"
CONFIG = config("Qwen--Qwen2.5-0.5B-Instruct")
FILES = {"config.json": json.dumps(CONFIG).encode(), "model.safetensors": safetensors(EMBEDDING)}
LISTING = "GET /api/models/acme/chat"


def wanted(revision="chat-5f3a9c01", **fields):
    source = parse_source("hf://acme/chat", allow_cluster_internal=True)
    given = {"model_revision": None, "credentials_secret": "hub", "engine_args": ()} | fields
    return ModelToRead(revision=revision, source=source, **given)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(model_files, "_RETRY", Retry(attempts=1, first_wait_s=0.01, most_wait_s=0.02))


@pytest.fixture
def hub(web):
    """A hub with one repository."""
    siblings = [{"rfilename": path, "size": len(content)} for path, content in FILES.items()]
    info = {"id": "acme/chat", "sha": COMMIT, "siblings": siblings}
    web.files["/api/models/acme/chat"] = json.dumps(info).encode()
    for path, content in FILES.items():
        web.files[f"/acme/chat/resolve/{COMMIT}/{path}"] = content
    return web


@pytest.fixture
def secrets(hub, ca_file):
    """The Secrets of the namespace `demo`, as their values; a test may change them."""
    return {"hub": {"HF_ENDPOINT": hub.url.encode(), "ca.crt": ca_file.read_bytes()}}


@pytest.fixture
async def api_server(secrets):
    """The address of a server that has them."""

    async def get(request):
        values = secrets.get(request.match_info["name"])
        if values is None:
            return http.json_response({"message": "not found"}, status=404)
        return http.json_response({"data": {k: base64.b64encode(v).decode() for k, v in values.items()}})

    application = http.Application()
    application.router.add_get("/api/v1/namespaces/demo/secrets/{name}", get)
    runner = http.AppRunner(application)
    await runner.setup()
    site = http.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    await runner.cleanup()


class Reader:
    """The reader, and what it told."""

    def __init__(self, client, *, patience_s=20.0, allow_internal=True):
        self.clock = Clock()
        self.changes = asyncio.Queue()
        self.reader = ModelFilesReader(
            client,
            guard=AddressGuard(allow_internal=allow_internal),
            on_change=self.changes.put_nowait,
            clock=self.clock,
            patience_s=patience_s,
        )
        self.known = self.reader.known
        self.refresh = self.reader.refresh

    async def answer(self, what=None):
        """What a reading gives."""
        assert self.refresh(KEY, what or wanted()) is None
        return await self.news()

    async def news(self):
        async with asyncio.timeout(10):
            assert await self.changes.get() == KEY
        return self.known(KEY).answer


@pytest.fixture
async def start(api_server):
    readers = []
    async with Client(Configuration(host=api_server)) as client:

        def start(**options):
            readers.append(Reader(client, **options))
            return readers[-1]

        yield start
        for reader in readers:
            reader.reader.close()


async def test_reads_in_the_background_and_says_when_it_knows(start):
    reader = start()
    assert reader.refresh(KEY, wanted()) is None
    assert reader.known(KEY) is None
    facts = await reader.news()
    assert isinstance(facts, ModelFacts)
    assert (facts.version, facts.config) == (COMMIT, CONFIG)
    assert facts.weights.basis == "headers"
    assert reader.known(KEY).revision == "chat-5f3a9c01"


async def test_reads_once(start, hub):
    reader = start()
    await reader.answer()
    asked = len(hub.requests)
    assert reader.refresh(KEY, wanted()) is None
    assert reader.refresh(KEY, None) is None
    assert reader.known(KEY) is None
    assert len(hub.requests) == asked


async def test_two_looks_at_the_same_time_read_once(start, hub):
    reader = start()
    reader.refresh(KEY, wanted())
    await reader.answer()
    assert len([r for r in hub.requests if r.path.startswith("/api/models")]) == 1


async def test_another_revision_is_read_anew(start):
    reader = start()
    await reader.answer()
    await reader.answer(wanted("chat-00000001"))
    assert reader.known(KEY).revision == "chat-00000001"


async def test_a_failure_is_one_sentence_and_is_tried_again_after_a_pause_that_doubles(start, hub):
    reader = start()
    for pause_s in (10, 20, 40, 80, 160, 320, 600, 600):
        hub.fail(LISTING, Fault(status=404))
        answer = await reader.answer()
        assert answer.reason is Reason.CONFIG_UNREADABLE
        assert "acme/chat" in answer.message
        assert reader.refresh(KEY, wanted()) == pause_s
        reader.clock.now_s += pause_s
    assert isinstance(await reader.answer(), ModelFacts)


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        pytest.param({}, "certificate", id="an authority that nobody told of"),
        pytest.param(None, "`hub` in `model.credentialsSecret` does not exist", id="no such Secret"),
    ],
)
async def test_a_secret_that_does_not_help_is_said(start, secrets, hub, secret, words):
    if secret is None:
        del secrets["hub"]
    else:
        secrets["hub"] = {"HF_ENDPOINT": hub.url.encode()}
    answer = await start().answer()
    assert isinstance(answer, Refusal)
    assert words in answer.message


async def test_an_internal_address_is_not_read_from(start):
    answer = await start(allow_internal=False).answer()
    assert "127.0.0.1" in answer.message


async def test_a_slow_source_does_not_hold_the_service_up_and_is_read_to_the_end(start, hub):
    path = f"GET /acme/chat/resolve/{COMMIT}/config.json"
    hub.fail(path, Fault(hold_after=1))
    reader = start(patience_s=0.2)
    answer = await reader.answer()
    assert "still being read" in answer.message
    assert reader.refresh(KEY, wanted()) is None, "it is not read twice at a time"
    hub.released.set()
    assert "config.json" in (await reader.news()).message


async def test_a_mistake_of_ours_is_no_reason_to_wait_for_ever(start, hub):
    hub.files["/api/models/acme/chat"] = b"null"
    answer = await start().answer()
    assert answer.reason is Reason.CONFIG_UNREADABLE


async def test_a_service_that_is_gone_is_not_read_any_further(start, hub):
    hub.fail(LISTING, Fault(hold_after=1))
    reader = start()
    reader.refresh(KEY, wanted())
    await asyncio.to_thread(hub.wait_until, bool)
    reader.reader.forget(KEY)
    hub.released.set()
    assert reader.known(KEY) is None
    assert isinstance(await reader.answer(), ModelFacts)
    assert reader.changes.empty(), "the first reading told nothing"


@pytest.mark.parametrize(
    ("path", "key"),
    [
        pytest.param("/credentials/key.json\n", "{}", id="a file of the Secret"),
        pytest.param("/var/run/secrets/kubernetes.io/serviceaccount/token", "", id="the operator's token"),
    ],
)
def test_a_path_in_a_secret_opens_no_file_of_the_operator(path, key):
    secret = {"GOOGLE_APPLICATION_CREDENTIALS": path.encode(), "key.json": b"{}"}
    with credentials_of(secret) as credentials:
        assert "GOOGLE_APPLICATION_CREDENTIALS" not in credentials.values
        assert credentials.values["GOOGLE_SERVICE_ACCOUNT_KEY"] == key


def test_authorities_are_in_a_file_as_long_as_they_are_needed():
    with credentials_of({"ca.crt": b"PEM", "HF_TOKEN": b"t"}) as credentials:
        assert credentials.ca_file.read_bytes() == b"PEM"
        assert credentials.values == {"HF_TOKEN": "t"}
    assert not credentials.ca_file.exists()
