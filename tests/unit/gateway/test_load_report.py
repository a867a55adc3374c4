import json

import pytest
from tests.unit.clock import Clock
from tests.unit.gateway.records import record, refused
from tests.unit.gateway.waiters import Waiter

from stoker.gateway.accounting import Accounting
from stoker.gateway.errors import Code
from stoker.gateway.histogram import QUEUE_S
from stoker.gateway.load_report import LoadReports
from stoker.gateway.outcome import Outcome
from stoker.gateway.table import InstanceState, RoutingTable, ServiceState


@pytest.fixture
def clock():
    return Clock(1000.0)


@pytest.fixture
def table():
    return RoutingTable(draw=lambda: 0.5, on_wake=lambda service: None)


@pytest.fixture
def accounting(table):
    return Accounting(table)


@pytest.fixture
def reports(accounting, table, clock):
    return LoadReports(accounting, table, clock=clock)


def serve(table, *pods, **fields):
    instances = tuple(
        InstanceState(name=pod, host="10.0.0.1", port=port, revision="r1")
        for port, pod in enumerate(pods, start=8000)
    )
    state = ServiceState(
        namespace="demo",
        name="chat",
        created="2026-01-01T00:00:00Z",
        models=("chat",),
        capacity=1,
        instances=instances,
        **fields,
    )
    table.update([state], replicas=1, now_s=0.0)
    return table.services["demo", "chat"]


def read(reports):
    *services, end = [json.loads(line) for line in reports.lines()]
    return services, end


def test_a_report_ends_with_which_process_it_is_of(reports, clock):
    clock.now_s += 2.5
    services, end = read(reports)
    assert services == []
    assert end["ageSeconds"] == 2.5
    assert end["waitBounds"] == list(QUEUE_S)
    assert end["process"] == read(reports)[1]["process"]


def test_two_processes_are_told_apart(accounting, table, clock):
    ends = [read(LoadReports(accounting, table, clock=clock))[1]["process"] for _ in range(2)]
    assert ends[0] != ends[1]


def test_each_request_has_arrived_whether_it_waits_runs_or_is_over(reports, accounting, table, clock):
    service = serve(table, "a")
    for waited_s in (0.0, 2.0, 3.0):
        service.queue.offer(Waiter(), 997.0 + waited_s)
    accounting.add(record(instance="a"))
    accounting.add(refused(Code.QUEUE_FULL, Outcome.SHED))
    ((load,), _) = read(reports)
    assert load["waiting"] == 2
    assert load["oldestWaitSeconds"] == 1.0
    assert load["ended"] == 2
    assert load["refused"] == {"queue_full": 1}
    assert load["arrived"] == 5
    assert load["instances"] == [
        {"name": "a", "revision": "r1", "inFlight": 1, "limit": 1, "state": "usable"}
    ]


def test_requests_on_an_instance_that_is_gone_still_run(reports, table):
    service = serve(table, "a")
    service.queue.offer(Waiter(), 0.0)
    serve(table)
    ((load,), _) = read(reports)
    assert load["arrived"] == 1
    assert load["instances"][0]["state"] == "leaving"


def test_times_are_by_revision(reports, accounting, table):
    serve(table, "a")
    accounting.add(record(instance="a", queue_s=0.02, first_byte_s=0.3, duration_s=1.3))
    accounting.add(record(instance="a", queue_s=500.0, first_byte_s=0.5, duration_s=2.0))
    ((load,), end) = read(reports)
    (revision,) = load["revisions"]
    assert revision["name"] == "r1"
    assert (revision["firstTokens"], revision["firstTokenSeconds"]) == (2, 0.8)
    assert (revision["requests"], revision["requestSeconds"]) == (2, 3.3)
    assert len(revision["waits"]) == len(end["waitBounds"]) + 1
    assert revision["waits"][3] == 1
    assert revision["waits"][-1] == 1


def test_a_wake_is_told_while_the_service_is_at_zero(reports, table, clock):
    service = serve(table, zero=True)
    assert read(reports)[0][0]["wokenSecondsAgo"] is None
    reports.wake(service)
    clock.now_s += 3
    assert read(reports)[0][0]["wokenSecondsAgo"] == 3
    serve(table, "a")
    assert read(reports)[0][0]["wokenSecondsAgo"] is None


def test_a_service_that_is_gone_is_in_no_report(reports, table):
    reports.wake(serve(table, zero=True))
    table.update([], replicas=1, now_s=0.0)
    assert read(reports)[0] == []
