"""Collections against a real HTTP server on loopback that lists and watches as an API server does."""

import asyncio
import contextlib
import json

import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration

from stoker.kube import client as client_module
from stoker.kube import watch as watch_module
from stoker.kube.client import Client
from stoker.kube.resources import ENDPOINT_SLICES
from stoker.kube.watch import Collection, ObjectKey


def slice_(name, version, **fields):
    return {"metadata": {"namespace": "prod", "name": name, "resourceVersion": str(version)}, **fields}


class Server:
    """Lists what it was told there is; a watch says what is put into `events`, until it is None."""

    def __init__(self):
        self.items = []
        self.version = 1
        self.events = asyncio.Queue()
        self.watched_since = []
        self.lists = 0
        self.status = 200

    async def handle(self, request):
        if self.status != 200:
            body = {"kind": "Status", "message": "endpointslices is forbidden"}
            return web.json_response(body, status=self.status)
        if "watch" not in request.query:
            self.lists += 1
            listed = {"metadata": {"resourceVersion": str(self.version)}, "items": self.items}
            return web.json_response(listed)
        self.watched_since.append(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        while (event := await self.events.get()) is not None:
            if event == "cut":
                request.transport.abort()
                return response
            await response.write(event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n")
        return response

    def will_tell(self, kind, obj):
        self.events.put_nowait({"type": kind, "object": obj})


@pytest.fixture
async def server():
    server = Server()
    application = web.Application()
    application.router.add_get("/{path:.*}", server.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    yield server
    await runner.cleanup()


@pytest.fixture
async def collection(server, monkeypatch):
    """A collection that is followed; `changes` is what it told, `told()` waits until it tells."""
    monkeypatch.setattr(client_module, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(watch_module, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(watch_module, "_LEAST_S", 0.0)
    news = asyncio.Queue()
    async with Client(Configuration(host=server.url)) as client:
        collection = Collection(
            client,
            ENDPOINT_SLICES,
            namespace="prod",
            label_selector="a=b",
            on_change=news.put_nowait,
            spread=lambda: 0.0,
        )

        async def told():
            changed = await asyncio.wait_for(news.get(), 5)
            return {key.name: obj and obj["metadata"]["resourceVersion"] for key, obj in changed.items()}

        collection.told = told
        following = asyncio.create_task(collection.follow())
        yield collection
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


def names(collection):
    return {key.name for key in collection.objects}


async def test_tells_what_a_list_shows_and_then_each_change(server, collection):
    server.items = [slice_("a", 1), slice_("b", 2)]
    server.version = 5
    assert await collection.told() == {"a": "1", "b": "2"}
    assert collection.synced
    server.will_tell("MODIFIED", slice_("a", 6))
    assert await collection.told() == {"a": "6"}
    server.will_tell("ADDED", slice_("c", 7))
    assert await collection.told() == {"c": "7"}
    server.will_tell("DELETED", slice_("b", 8))
    assert await collection.told() == {"b": None}
    assert names(collection) == {"a", "c"}
    assert server.watched_since == ["5"]


async def test_an_empty_list_is_told_too(collection):
    assert await collection.told() == {}
    assert collection.synced


async def test_a_watch_that_ends_by_its_time_goes_on_where_it_was(server, collection):
    await collection.told()
    server.will_tell("ADDED", slice_("a", 3))
    server.will_tell("BOOKMARK", slice_("", 9))
    server.events.put_nowait(None)
    server.will_tell("DELETED", slice_("a", 11))
    assert await collection.told() == {"a": "3"}
    assert await collection.told() == {"a": None}
    assert server.watched_since == ["1", "9"]
    assert server.lists == 1


async def test_an_event_may_come_in_pieces_and_two_in_one(server, collection):
    await collection.told()
    text = b"".join(
        json.dumps({"type": "ADDED", "object": slice_(name, 3, padding="x" * 70_000)}).encode() + b"\n"
        for name in ("a", "b")
    )
    for start in range(0, len(text), 50_000):
        server.events.put_nowait(text[start : start + 50_000])
    assert [await collection.told(), await collection.told()] == [{"a": "3"}, {"b": "3"}]


BREAKS = [
    pytest.param("cut", id="a connection that breaks"),
    pytest.param(b"nonsense\n", id="an event that makes no sense"),
    pytest.param({"type": "ERROR", "object": {"code": 410, "message": "too old"}}, id="a version too old"),
    pytest.param({"type": "ADDED", "object": {}}, id="an object that says nothing"),
]


@pytest.mark.parametrize("event", BREAKS)
async def test_after_a_break_a_list_replaces_everything(server, collection, event):
    """Case G2: the deletion of `a` was never told."""
    server.items = [slice_("a", 1), slice_("b", 2)]
    assert await collection.told() == {"a": "1", "b": "2"}
    server.items = [slice_("b", 2), slice_("c", 7)]
    server.version = 7
    server.events.put_nowait(event)
    assert await collection.told() == {}  # what it is told when it is in trouble
    assert await collection.told() == {"a": None, "c": "7"}
    assert names(collection) == {"b", "c"}
    assert collection.trouble == ""
    await asyncio.sleep(0)
    assert server.lists == 2


async def test_without_a_server_the_last_picture_stays(server, collection):
    server.items = [slice_("a", 1)]
    await collection.told()
    server.status = 503
    server.events.put_nowait("cut")
    assert await collection.told() == {}
    assert names(collection) == {"a"}
    assert collection.trouble
    assert not collection.refused
    assert collection.synced
    server.status = 200
    while await collection.told() or collection.trouble:
        pass
    assert collection.objects[ObjectKey("prod", "a")]["metadata"]["resourceVersion"] == "1"


async def test_a_refusal_is_said_and_asked_again(server, collection):
    server.status = 403
    assert await collection.told() == {}
    assert collection.refused
    assert not collection.synced
    assert "endpointslices is forbidden" in collection.trouble
    server.status = 200
    server.items = [slice_("a", 1)]
    while not await collection.told():
        pass
    assert collection.synced
    assert not collection.refused


async def test_who_set_which_field_is_not_kept(server, collection):
    obj = slice_("a", 1)
    obj["metadata"]["managedFields"] = [{"manager": "someone"}]
    server.items = [obj]
    await collection.told()
    assert "managedFields" not in collection.objects[ObjectKey("prod", "a")]["metadata"]


async def test_a_watch_that_ends_as_soon_as_it_began_is_not_asked_again_at_once(
    server, collection, monkeypatch
):
    monkeypatch.setattr(watch_module, "_LEAST_S", 60.0)
    await collection.told()
    server.events.put_nowait(None)
    assert await collection.told() == {}
    assert "ended as soon as it began" in collection.trouble
