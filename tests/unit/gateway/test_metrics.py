import asyncio
import itertools
import re
from collections import Counter
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.gateway.records import record, refused

from stoker.gateway import metric_families as families
from stoker.gateway.accounting import MOST_WORKLOADS, Accounting
from stoker.gateway.errors import Code
from stoker.gateway.instances import Evidence
from stoker.gateway.metric_families import FAMILIES, MOST_VALUES
from stoker.gateway.metrics import CONTENT_TYPE, exposition
from stoker.gateway.outcome import Outcome
from stoker.gateway.scrape import send_slices
from stoker.gateway.table import InstanceState, RoutingTable, ServiceState

OWN = {
    families.CONNECTIONS: 3,
    families.LOG_LOST: 1,
    families.SPANS: 20,
    families.SPANS_LOST: 2,
}
METRICS_PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


@pytest.fixture
def table():
    return RoutingTable(draw=lambda: 0.5, on_wake=lambda service: None)


@pytest.fixture
def accounting(table):
    return Accounting(table)


def serve(table, *instances, name="chat"):
    others = [s.state for s in table.services.values() if s.name != name]
    state = ServiceState(
        namespace="demo",
        name=name,
        created="2026-01-01T00:00:00Z",
        models=(name,),
        capacity=4,
        instances=instances,
    )
    table.update([*others, state], replicas=1, now_s=0.0)
    return table.services["demo", name]


def pod(name, *, host="10.0.0.1", leaving=False):
    return InstanceState(name=name, host=host, port=8000, revision="r1", model_version="v7", leaving=leaving)


def text(accounting, table, *, now_s=100.0):
    return b"".join(exposition(accounting, table, now_s=now_s, own=OWN)).decode()


def samples(accounting, table, *, now_s=100.0):
    found = {}
    for family in text_string_to_metric_families(text(accounting, table, now_s=now_s)):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, "Prometheus refuses a scrape with a series that is there twice"
            found[key] = sample.value
    return found


def value(found, name, **labels):
    return found[f"stoker_gateway_{name}", tuple(sorted(labels.items()))]


CHAT = {"namespace": "demo", "service": "chat"}
ON_A = CHAT | {"revision": "r1", "model_version": "v7", "instance": "chat-r1-a"}


def test_counters_show_what_was_counted(accounting, table):
    accounting.add(record())
    accounting.add(record(outcome=Outcome.CLIENT_GONE, estimated=True, retries=1))
    accounting.add(refused(Code.QUEUE_FULL, Outcome.SHED))
    found = samples(accounting, table)
    batch = CHAT | {"workload": "batch"}
    assert value(found, "requests_total", **batch, outcome="ok") == 1
    assert value(found, "requests_total", **batch, outcome="client_gone") == 1
    assert value(found, "requests_total", **batch, outcome="shed") == 1
    assert value(found, "prompt_tokens_total", **batch) == 200
    assert value(found, "prompt_tokens_cached_total", **batch) == 120
    assert value(found, "generation_tokens_total", **batch) == 42
    assert value(found, "request_errors_total", **CHAT, code="queue_full") == 1
    assert value(found, "retries_total", **CHAT) == 1
    assert value(found, "requests_estimated_total", **CHAT) == 1
    assert value(found, "request_bytes_total", **CHAT) == 3 * 512
    assert value(found, "response_bytes_total", **CHAT) == 2 * 2048
    assert value(found, "instance_requests_total", **ON_A, outcome="ok") == 1
    assert value(found, "instance_prompt_tokens_total", **ON_A) == 200
    assert value(found, "instance_prompt_tokens_cached_total", **ON_A) == 120
    assert value(found, "instance_generation_tokens_total", **ON_A) == 42
    assert found["stoker_gateway_client_connections", ()] == 3
    assert found["stoker_gateway_spans_lost_total", ()] == 2


def test_histograms_are_cumulative_and_end_with_everything(accounting, table):
    for first_byte_s in (0.3, 0.3, 0.9, 4000.0):
        accounting.add(record(first_byte_s=first_byte_s))
    found = samples(accounting, table)
    r1 = CHAT | {"revision": "r1"}
    name = "time_to_first_token_seconds"
    assert value(found, f"{name}_bucket", **r1, le="0.25") == 0
    assert value(found, f"{name}_bucket", **r1, le="0.5") == 2
    assert value(found, f"{name}_bucket", **r1, le="1.0") == 3
    assert value(found, f"{name}_bucket", **r1, le="2560.0") == 3
    assert value(found, f"{name}_bucket", **r1, le="+Inf") == 4
    assert value(found, f"{name}_count", **r1) == 4
    assert value(found, f"{name}_sum", **r1) == pytest.approx(4001.5)


def test_gauges_show_the_present(accounting, table):
    service = serve(table, pod("chat-r1-a"), pod("b", leaving=True), pod("c"))
    busy, _, broken = service.instances.values()
    tickets = [broken.acquire(50.0) for _ in range(3)]
    busy.acquire(50.0)
    for ticket in tickets:
        broken.release(ticket, Evidence.FAILED, 99.9)
    found = samples(accounting, table, now_s=100.0)
    assert value(found, "num_requests_waiting", **CHAT) == 0
    assert value(found, "oldest_wait_seconds", **CHAT) == 0
    assert value(found, "queue_limit", **CHAT) == 100
    assert value(found, "num_requests_running", **ON_A) == 1
    assert value(found, "num_requests_running_limit", **ON_A) == 4
    states = {s: value(found, "instances", **CHAT, state=s) for s in families.STATES}
    assert states == {"usable": 1, "leaving": 1, "ejected": 1}


def test_a_pod_that_came_back_elsewhere_is_one_series(accounting, table):
    service = serve(table, pod("chat-r1-a", host="10.0.0.1"))
    (before,) = service.instances.values()
    before.acquire(1.0)
    service = serve(table, pod("chat-r1-a", host="10.0.0.2"))
    (after,) = service.instances.values()
    after.acquire(2.0)
    assert value(samples(accounting, table), "num_requests_running", **ON_A) == 2


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param('quoted "name"', id="quotes"),
        pytest.param("C:\\batch\\n", id="backslashes"),
        pytest.param("größer", id="letters beyond ASCII"),
        pytest.param("a}b,c=", id="the signs of the format"),
    ],
)
def test_a_clients_text_stays_within_its_label(accounting, table, workload):
    accounting.add(record(workload=workload))
    found = samples(accounting, table)
    assert value(found, "prompt_tokens_total", **CHAT, workload=workload) == 100


def test_all_series_of_a_metric_are_one_group(accounting, table):
    for name in ("chat", "embed"):
        serve(table, pod(f"{name}-a"), name=name)
        accounting.add(record(service=name))
    names = [line.split()[2] for line in text(accounting, table).splitlines() if line.startswith("# TYPE")]
    assert names == [f.name for f in FAMILIES]
    groups = [
        name
        for name, _ in itertools.groupby(
            re.sub(r"_(bucket|sum|count)$", "", re.split(r"[ {]", line)[0])
            for line in text(accounting, table).splitlines()
            if not line.startswith("#")
        )
    ]
    assert max(Counter(groups).values()) == 1


def test_no_family_has_more_series_than_it_says(accounting, table):
    """One service with two instances of two revisions, and more of all else than is allowed."""
    serve(table, pod("a"), pod("b"))
    for workload, outcome in itertools.product(range(MOST_WORKLOADS + 9), Outcome):
        for instance, revision in (("a", "r1"), ("b", "r2")):
            accounting.add(
                record(workload=f"w{workload}", outcome=outcome, instance=instance, revision=revision)
            )
    for code in Code:
        accounting.add(record(code=code, workload="w0", instance="a"))
    counted = Counter(name for name, _ in samples(accounting, table))
    there = {"namespace": 1, "service": 1, "revision": 2, "instance": 2, "model_version": 1} | MOST_VALUES
    for family in FAMILIES:
        most = 1
        for label in family.labels:
            # An instance is of one revision.
            most *= 1 if label == "revision" and "instance" in family.labels else there[label]
        if family.bounds:
            assert counted[f"{family.name}_bucket"] == most * (len(family.bounds) + 1)
            assert counted[f"{family.name}_count"] == counted[f"{family.name}_sum"] == most
        else:
            assert counted[family.name] == most, family.name


def test_the_page_on_metrics_lists_each_with_its_labels_and_bound():
    rows = {line for line in METRICS_PAGE.read_text().splitlines() if line.startswith("| `stoker_gateway_")}
    assert rows == {_row(family) for family in FAMILIES}


def _row(family):
    labels = " ".join(f"`{label}`" for label in family.labels)
    cells = (f"`{family.name}`", family.type, labels, family.help, family.most_series)
    return f"| {' | '.join(cells)} |"


async def test_g15_a_scrape_lets_the_loop_go_on_between_slices(accounting, table):
    for service, workload in itertools.product(range(50), range(20)):
        accounting.add(record(service=f"s{service}", workload=f"w{workload}"))
    for workload, outcome in itertools.product(range(MOST_WORKLOADS), Outcome):
        accounting.add(record(workload=f"w{workload}", outcome=outcome))
    sizes = []
    turns = 0
    turns_at_slices = []

    async def go_round():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    def slices():
        for piece in exposition(accounting, table, now_s=0.0, own=OWN):
            sizes.append(len(piece))
            turns_at_slices.append(turns)
            yield piece

    async def answer(request):
        return await send_slices(request, slices(), content_type=CONTENT_TYPE)

    application = web.Application()
    application.router.add_get("/metrics", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    others = asyncio.create_task(go_round())
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as response:
            body = await response.text()
            assert response.headers["Content-Type"] == CONTENT_TYPE
    finally:
        others.cancel()
        await runner.cleanup()
    assert len(sizes) > 20
    assert max(sizes) < 40 * 1024
    assert sum(sizes) == len(body.encode())
    assert len(set(turns_at_slices)) == len(turns_at_slices)


def test_what_comes_while_a_scrape_is_under_way_does_no_harm(accounting, table):
    serve(table, pod("a"))
    for workload in range(150):
        accounting.add(record(workload=f"w{workload}"))
    for n, _ in enumerate(exposition(accounting, table, now_s=0.0, own=OWN)):
        for more in range(20):
            name = f"{n}-{more}"
            accounting.add(
                record(service=name, workload=name, instance=name, revision=name, code=Code.QUEUE_FULL)
            )
            accounting.add(record(workload=name, instance=name, revision=name))
        serve(table, pod(f"b{n}"), name=f"service-{n}")
        if n == 12:
            break
    assert samples(accounting, table)
