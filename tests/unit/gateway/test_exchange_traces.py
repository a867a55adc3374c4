"""Which trace context an engine gets, through the data path."""

import pytest
from tests.unit.gateway.gateway import chat

from stoker.gateway.traces import Tracing, parse_traceparent

TRACE = "0af7651916cd43dd8448eb211c80319c"
CLIENTS = f"00-{TRACE}-b7ad6b7169203331-01"


async def ask(gateway, engine, *headers):
    """The headers that the engine got."""
    seen = []

    def answer(request):
        seen.append({name.decode(): value.decode() for name, value in request.head.items()})
        request.answer(b"{}")

    engine.script = answer
    response = await gateway.ask(chat(), headers=headers)
    assert response.status == 200
    return seen[0]


@pytest.fixture
def tracing(gateway):
    gateway.data_path.tracing = Tracing(ratio=1.0, bits=lambda n: 0xABC)


async def test_without_traces_the_clients_context_goes_through(gateway, engine):
    headers = await ask(gateway, engine, f"Traceparent: {CLIENTS}", "tracestate: vendor=1")
    assert headers["traceparent"] == CLIENTS
    assert headers["tracestate"] == "vendor=1"
    assert (await gateway.record()).span is None


async def test_without_traces_and_without_a_context_the_engine_gets_none(gateway, engine):
    assert "traceparent" not in await ask(gateway, engine)


@pytest.mark.usefixtures("tracing")
async def test_the_engines_parent_is_the_gateways_span(gateway, engine):
    headers = await ask(gateway, engine, f"traceparent: {CLIENTS}", "tracestate: vendor=1")
    assert headers["traceparent"] == f"00-{TRACE}-0000000000000abc-01"
    assert headers["tracestate"] == "vendor=1"
    span = (await gateway.record()).span
    assert (span.trace_id, span.parent_id, span.span_id) == (TRACE, "b7ad6b7169203331", "0000000000000abc")


@pytest.mark.usefixtures("tracing")
async def test_a_client_without_a_context_begins_a_trace(gateway, engine):
    headers = await ask(gateway, engine)
    span = (await gateway.record()).span
    assert parse_traceparent(headers["traceparent"]).trace_id == span.trace_id
    assert span.parent_id == ""


@pytest.mark.usefixtures("tracing")
async def test_a_refused_request_has_a_span_too(gateway):
    await gateway.ask(chat(model="unknown"), headers=[f"traceparent: {CLIENTS}"])
    assert (await gateway.record()).span.trace_id == TRACE
