import json

import pytest
from aiohttp import web
from tests.unit.gateway.gateway import until
from tests.unit.gateway.records import record

from stoker.gateway.accounting import Accounting
from stoker.gateway.metric_families import LOG_LOST, SPANS, SPANS_LOST
from stoker.gateway.settings import Settings
from stoker.gateway.sinks import Sinks
from stoker.gateway.table import RoutingTable
from stoker.gateway.traces import Span
from stoker.kube.errors import FatalError

SPAN = Span(trace_id="0af7651916cd43dd8448eb211c80319c", span_id="1" * 16, parent_id="", sampled=True)


@pytest.fixture
def accounting():
    return Accounting(RoutingTable(draw=lambda: 0.5, on_wake=lambda service: None))


@pytest.fixture
def sinks(accounting):
    return Sinks(accounting)


@pytest.fixture
async def collector():
    batches = []

    async def take(request):
        batches.append(await request.json())
        return web.Response()

    application = web.Application()
    application.router.add_post("/v1/traces", take)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}", batches
    await runner.cleanup()


async def test_by_default_only_the_accounts_are_kept(sinks, accounting):
    async with sinks.running(Settings(), replica="gateway-0"):
        sinks.add(record(span=SPAN))
        assert sinks.counts() == {LOG_LOST: 0, SPANS: 0, SPANS_LOST: 0}
    assert accounting.of("demo", "chat").ended == 1


async def test_what_is_left_at_the_end_is_brought_out(sinks, accounting, collector, tmp_path):
    endpoint, batches = collector
    settings = Settings(access_log=str(tmp_path / "log"), trace_endpoint=endpoint)
    async with sinks.running(settings, replica="gateway-0"):
        sinks.add(record(span=SPAN))
    assert json.loads((tmp_path / "log").read_text())["request_id"] == "r-1"
    assert len(batches) == 1
    assert accounting.of("demo", "chat").ended == 1
    assert sinks.counts() == {LOG_LOST: 0, SPANS: 1, SPANS_LOST: 0}


async def test_lost_lines_are_counted(sinks):
    async with sinks.running(Settings(access_log="/dev/full"), replica="gateway-0"):
        sinks.add(record())
        await until(lambda: sinks.counts()[LOG_LOST] == 1)


async def test_an_access_log_that_cannot_be_opened_is_said_with_its_setting(sinks, tmp_path):
    with pytest.raises(FatalError, match="--access-log"):
        async with sinks.running(Settings(access_log=str(tmp_path)), replica="gateway-0"):
            pass
