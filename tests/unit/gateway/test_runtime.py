"""How the parts of a process are put together; that it runs is for `tests/cluster`."""

import json

import pytest
from kubernetes.aio.client import Configuration
from prometheus_client.parser import text_string_to_metric_families

from stoker.gateway.metric_families import FAMILIES
from stoker.gateway.runtime import Gateway
from stoker.gateway.settings import Settings
from stoker.gateway.table import ServiceState
from stoker.kube.client import Client


@pytest.fixture
async def client():
    async with Client(Configuration(host="http://127.0.0.1:1")) as client:
        yield client


async def test_the_page_for_prometheus_has_every_metric_once(client):
    gateway = Gateway(Settings(), client=client)
    page = b"".join(gateway._metrics()).decode()
    heads = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    assert {family.name for family in FAMILIES} <= set(heads)
    assert list(text_string_to_metric_families(page))


@pytest.mark.parametrize(
    ("endpoint", "traces"),
    [
        pytest.param("", False, id="none without a collector"),
        pytest.param("http://collector:4318", True, id="with one, each request has a span"),
    ],
)
async def test_traces_are_made_for_a_collector_alone(client, endpoint, traces):
    gateway = Gateway(Settings(trace_endpoint=endpoint), client=client)
    assert (gateway._data_path.tracing is not None) is traces


async def test_a_request_for_a_service_at_zero_is_in_the_next_report(client):
    gateway = Gateway(Settings(), client=client)
    state = ServiceState(
        namespace="demo", name="chat", created="2026-01-01T00:00:00Z", models=("chat",), zero=True
    )
    gateway._table.update([state], replicas=1, now_s=0.0)
    gateway._wake(gateway._table.services["demo", "chat"])
    load = json.loads(next(gateway._loads.lines()))
    assert load["wokenSecondsAgo"] is not None
