import asyncio

import pytest
from aiohttp import ClientSession, web
from tests.unit.gateway.gateway import until
from tests.unit.gateway.records import record, refused

from stoker.gateway import span_export
from stoker.gateway.errors import Code
from stoker.gateway.outcome import Outcome
from stoker.gateway.span_export import SpanExport, span_of
from stoker.gateway.traces import Span

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = Span(trace_id=TRACE, span_id="1" * 16, parent_id="b7ad6b7169203331", sampled=True)
SECOND_NS = 1_000_000_000


def attributes(span):
    found = {}
    for attribute in span["attributes"]:
        ((kind, value),) = attribute["value"].items()
        found[attribute["key"]] = int(value) if kind == "intValue" else value
    return found


def test_a_span_has_the_ids_and_times_of_its_request():
    span = span_of(record(), SPAN, ended_ns=5 * SECOND_NS)
    assert span["traceId"] == TRACE
    assert span["spanId"] == "1" * 16
    assert span["parentSpanId"] == "b7ad6b7169203331"
    assert span["name"] == "chat chat"
    assert (span["startTimeUnixNano"], span["endTimeUnixNano"]) == ("3700000000", "5000000000")
    assert "status" not in span


def test_a_span_speaks_opentelemetrys_genai_names():
    found = attributes(span_of(record(), SPAN, ended_ns=0))
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.request.model"] == "chat"
    assert found["gen_ai.request.stream"] is True
    assert found["gen_ai.usage.input_tokens"] == 100
    assert found["gen_ai.usage.cache_read.input_tokens"] == 60
    assert found["gen_ai.usage.output_tokens"] == 21
    assert found["gen_ai.response.time_to_first_chunk"] == 0.3
    assert found["http.response.status_code"] == 200
    assert found["stoker.workload"] == "batch"
    assert found["stoker.queue_time"] == 0.02
    assert "error.type" not in found
    assert "stoker.adapter" not in found


@pytest.mark.parametrize(
    ("ended", "error_type", "blamed"),
    [
        pytest.param(record(outcome=Outcome.OUT_OF_MEMORY), "out_of_memory", True, id="memory"),
        pytest.param(
            record(outcome=Outcome.TIMEOUT, code=Code.ENGINE_TIMEOUT),
            "engine_timeout",
            True,
            id="a silent engine",
        ),
        pytest.param(refused(Code.QUEUE_FULL, Outcome.SHED), "queue_full", False, id="a full queue"),
        pytest.param(
            refused(Code.INVALID_JSON, Outcome.BAD_REQUEST, status=400),
            "invalid_json",
            False,
            id="a wrong request",
        ),
        pytest.param(record(outcome=Outcome.CLIENT_GONE), "client_gone", False, id="a client that left"),
    ],
)
def test_a_request_that_did_not_go_well_says_how(ended, error_type, blamed):
    span = span_of(ended, SPAN, ended_ns=0)
    assert attributes(span)["error.type"] == error_type
    assert ("status" in span) is blamed


def test_a_path_that_is_no_genai_operation_is_named_by_itself():
    span = span_of(record(path="/score"), SPAN, ended_ns=0)
    assert span["name"] == "POST /score"
    assert "gen_ai.operation.name" not in attributes(span)


class Collector:
    """Takes traces as a collector does, or answers with the statuses it is told."""

    def __init__(self):
        self.batches = []
        self.statuses = []

    @property
    def spans(self):
        return [
            span
            for batch in self.batches
            for resource in batch["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]

    async def take(self, request):
        assert request.content_type == "application/json"
        batch = await request.json()
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 200:
            self.batches.append(batch)
        return web.Response(status=status, headers={"Retry-After": "0"})


@pytest.fixture
async def collector(monkeypatch):
    monkeypatch.setattr(span_export, "_FIRST_PAUSE_S", 0.01)
    collector = Collector()
    application = web.Application()
    application.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    yield collector
    await runner.cleanup()


@pytest.fixture
async def export(collector):
    async with ClientSession() as session:
        yield SpanExport(session, endpoint=collector.endpoint, replica="gateway-a")


async def test_a_collector_gets_sampled_spans_and_no_others(export, collector):
    not_sampled = Span(trace_id=TRACE, span_id="2" * 16, parent_id="", sampled=False)
    for span in (SPAN, not_sampled, None):
        export.add(record(span=span))
    await export.flush()
    assert [s["spanId"] for s in collector.spans] == [SPAN.span_id]
    resource = collector.batches[0]["resourceSpans"][0]["resource"]
    assert attributes(resource) == {"service.name": "stoker-gateway", "service.instance.id": "gateway-a"}
    assert (export.exported, export.lost) == (1, 0)


async def test_many_spans_go_in_batches_without_being_asked(export, collector):
    running = asyncio.create_task(export.run())
    for _ in range(600):
        export.add(record(span=SPAN))
    await until(lambda: export.exported == 600)
    running.cancel()
    assert len(collector.spans) == 600
    assert len(collector.batches) == 3


@pytest.mark.parametrize(
    ("statuses", "exported", "lost"),
    [
        pytest.param([503, 429], 1, 0, id="busy ones are asked again"),
        pytest.param([400], 0, 1, id="what is refused is not sent again"),
        pytest.param([503] * 4, 0, 1, id="one that stays busy is given up"),
    ],
)
async def test_a_collector_that_fails(export, collector, statuses, exported, lost):
    collector.statuses = list(statuses)
    export.add(record(span=SPAN))
    await export.flush()
    assert (export.exported, export.lost) == (exported, lost)


async def test_a_collector_that_is_away_costs_spans_not_memory(monkeypatch):
    monkeypatch.setattr(span_export, "_FIRST_PAUSE_S", 0.001)
    async with ClientSession() as session:
        export = SpanExport(session, endpoint="http://127.0.0.1:9", replica="gateway-a")
        for _ in range(5000):
            export.add(record(span=SPAN))
        assert export.lost == 5000 - 4096
        await export.flush()
        assert (export.exported, export.lost) == (0, 5000)
