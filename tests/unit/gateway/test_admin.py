import json
import time

import pytest
from aiohttp.test_utils import TestClient, TestServer

from stoker.gateway import admin
from stoker.gateway.accounting import Accounting
from stoker.gateway.load_report import LoadReports
from stoker.gateway.table import RoutingTable


@pytest.fixture
async def page():
    state = {"unready": "not yet"}
    table = RoutingTable(draw=lambda: 0.5, on_wake=lambda service: None)
    application = admin.application(
        unready=lambda: state["unready"],
        metrics=lambda: (b"stoker_x 1\n", b"stoker_y 2\n"),
        loads=LoadReports(Accounting(table), table, clock=time.monotonic),
    )
    async with TestClient(TestServer(application)) as client:

        async def page(path):
            async with client.get(path) as answer:
                return answer.status, await answer.text()

        page.state = state
        page.client = client
        yield page


async def test_it_is_alive_while_it_is_not_ready(page):
    assert await page("/healthz") == (200, "ok")
    assert await page("/readyz") == (503, "not yet")


async def test_it_is_ready_when_nothing_speaks_against_it(page):
    page.state["unready"] = ""
    assert await page("/readyz") == (200, "ok")


async def test_the_metrics_are_those_it_was_given(page):
    assert await page("/metrics") == (200, "stoker_x 1\nstoker_y 2\n")


async def test_the_load_is_reported_until_the_reader_leaves(page):
    async with page.client.get("/load") as answer:
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        reports = [json.loads(await answer.content.readline()) for _ in range(2)]
    assert [report["services"] for report in reports] == [0, 0]
    assert reports[0]["process"] == reports[1]["process"]
