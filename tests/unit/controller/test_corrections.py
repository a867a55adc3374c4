"""The memory of corrections against an API server that keeps one ConfigMap."""

import json
from datetime import UTC, datetime

import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration

from stoker.controller.corrections import Corrections
from stoker.core.model import Correction
from stoker.kube.client import Client

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
PATH = "/api/v1/namespaces/stoker-system/configmaps/stoker-capacity-corrections"


class Server:
    """Keeps the data of the ConfigMap."""

    def __init__(self):
        self.data = None
        self.refuses = False
        self.asked = []

    async def handle(self, request):
        self.asked.append(request.method)
        if self.refuses:
            return web.json_response({"message": "forbidden"}, status=403)
        if request.method == "PATCH":
            self.data = json.loads(await request.text())["data"]
        if self.data is None:
            return web.json_response({"message": "not found"}, status=404)
        return web.json_response({"data": self.data})


@pytest.fixture
async def server():
    server = Server()
    application = web.Application()
    application.router.add_route("*", PATH, server.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    yield server
    await runner.cleanup()


@pytest.fixture
async def start(server):
    async with Client(Configuration(host=server.url)) as client:
        yield lambda: Corrections(client, namespace="stoker-system", now=lambda: NOW)


async def test_nothing_is_known_at_first_and_asked_once(start, server):
    corrections = start()
    assert await corrections.known() == {}
    assert await corrections.known() == {}
    assert server.asked == ["GET"]


async def test_what_was_measured_outlives_the_process(start):
    await start().remember(Correction(key="a", ratio=0.97))
    again = start()
    await again.remember(Correction(key="b", ratio=1.02))
    assert await again.known() == {"a": 0.97, "b": 1.02}
    assert await start().known() == {"a": 0.97, "b": 1.02}


async def test_what_says_nothing_new_is_not_written(start, server):
    corrections = start()
    for ratio in (0.97, 0.971, 0.969):
        await corrections.remember(Correction(key="a", ratio=ratio))
    assert server.asked == ["GET", "PATCH"]


async def test_what_could_not_be_read_is_not_overwritten(start, server):
    server.data = {"a": "0.97 2026-11-01T00:00:00Z"}
    server.refuses = True
    corrections = start()
    assert await corrections.known() == {}
    await corrections.remember(Correction(key="b", ratio=1.0))
    assert "PATCH" not in server.asked
    server.refuses = False
    assert await corrections.known() == {"a": 0.97}


async def test_what_could_not_be_written_is_known_and_goes_with_the_next_one(start, server):
    corrections = start()
    await corrections.known()
    server.refuses = True
    await corrections.remember(Correction(key="a", ratio=0.97))
    assert await corrections.known() == {"a": 0.97}
    server.refuses = False
    await corrections.remember(Correction(key="b", ratio=1.0))
    assert set(server.data) == {"a", "b"}
