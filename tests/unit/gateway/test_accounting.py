import pytest
from tests.unit.gateway.records import record, refused

from stoker.gateway.accounting import MOST_WORKLOADS, OTHER, Accounting
from stoker.gateway.errors import Code
from stoker.gateway.outcome import Outcome
from stoker.gateway.table import InstanceState, RoutingTable, ServiceState

HOUR_S = 3600.0


@pytest.fixture
def table():
    return RoutingTable(draw=lambda: 0.5, on_wake=lambda service: None)


@pytest.fixture
def accounting(table):
    return Accounting(table)


def serve(table, *pods, revision="r1"):
    instances = tuple(
        InstanceState(name=pod, host="10.0.0.1", port=port, revision=revision)
        for port, pod in enumerate(pods, start=8000)
    )
    state = ServiceState(
        namespace="demo", name="chat", created="2026-01-01T00:00:00Z", models=("chat",), instances=instances
    )
    table.update([state], replicas=1, now_s=0.0)


def test_tokens_go_to_the_workload_and_to_the_instance(accounting):
    accounting.add(record(workload="batch", instance="a"))
    accounting.add(record(workload="batch", instance="b"))
    accounting.add(record(workload="people", instance="b"))
    chat = accounting.of("demo", "chat")
    assert {
        w: (a.prompt_tokens, a.cached_tokens, a.completion_tokens) for w, a in chat.workloads.items()
    } == {
        "batch": (200, 120, 42),
        "people": (100, 60, 21),
    }
    assert {k: a.completion_tokens for k, a in chat.instances.items()} == {
        ("r1", "v7", "a"): 21,
        ("r1", "v7", "b"): 42,
    }


@pytest.mark.parametrize("outcome", list(Outcome))
def test_each_outcome_is_counted_by_its_name(accounting, outcome):
    accounting.add(record(outcome=outcome))
    chat = accounting.of("demo", "chat")
    assert chat.workloads["batch"].outcomes == {outcome: 1}
    assert chat.instances["r1", "v7", "chat-r1-a"].outcomes == {outcome: 1}


def test_a_refused_request_is_counted_by_code_and_has_no_times(accounting):
    accounting.add(refused(Code.QUEUE_FULL, Outcome.SHED))
    accounting.add(refused(Code.QUEUE_FULL, Outcome.SHED))
    accounting.add(refused(Code.QUEUE_TIMEOUT, Outcome.SHED, queue_s=30.0))
    chat = accounting.of("demo", "chat")
    assert chat.refused == {Code.QUEUE_FULL: 2, Code.QUEUE_TIMEOUT: 1}
    assert chat.ended == 3
    assert chat.revisions == {}
    assert chat.instances == {}


def test_what_no_service_serves_is_counted_without_a_service(accounting):
    accounting.add(
        refused(
            Code.MODEL_NOT_FOUND, Outcome.BAD_REQUEST, namespace="", service="", workload="", model="x" * 99
        )
    )
    assert accounting.of("", "").refused == {Code.MODEL_NOT_FOUND: 1}


def test_the_estimated_the_retried_and_the_bytes_add_up(accounting):
    accounting.add(record(estimated=True, retries=2))
    accounting.add(record())
    chat = accounting.of("demo", "chat")
    assert (chat.estimated, chat.retries, chat.request_bytes, chat.response_bytes) == (1, 2, 1024, 4096)


class TestTimes:
    @pytest.mark.parametrize(
        ("changes", "counts"),
        [
            pytest.param({}, (1, 1, 1, 1, 1), id="a good stream has all"),
            pytest.param(
                {"streaming": False, "inter_token_s": None},
                (1, 0, 0, 1, 1),
                id="a whole answer has no first token",
            ),
            pytest.param({"inter_token_s": None}, (1, 1, 0, 1, 1), id="one event has no time between events"),
            pytest.param(
                {"outcome": Outcome.CLIENT_GONE}, (1, 1, 1, 0, 0), id="a client that left has no whole time"
            ),
            pytest.param(
                {"outcome": Outcome.BAD_REQUEST, "status": 400},
                (1, 0, 0, 0, 0),
                id="an error is not a first token",
            ),
            pytest.param(
                {"outcome": Outcome.TIMEOUT, "first_byte_s": None, "inter_token_s": None},
                (1, 0, 0, 0, 0),
                id="without an answer only the wait is known",
            ),
            pytest.param(
                {"prompt_tokens": 0, "completion_tokens": 0},
                (1, 1, 1, 1, 0),
                id="unknown tokens are not zero tokens",
            ),
        ],
    )
    def test_a_time_counts_where_it_means_something(self, accounting, changes, counts):
        accounting.add(record(**changes))
        times = accounting.of("demo", "chat").revisions["r1"]
        assert counts == (
            times.queue_s.count,
            times.time_to_first_token_s.count,
            times.time_per_output_token_s.count,
            times.request_s.count,
            times.prompt_tokens.count,
        )

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            pytest.param({}, 0.05, id="an event may carry several tokens"),
            pytest.param({"estimated": True}, 0.1, id="estimated tokens are the events"),
            pytest.param({"completion_tokens": 0}, 0.1, id="without figures events stand for tokens"),
        ],
    )
    def test_time_per_token_is_of_tokens_not_of_events(self, accounting, changes, expected):
        accounting.add(record(**changes))
        times = accounting.of("demo", "chat").revisions["r1"]
        assert times.time_per_output_token_s.total == pytest.approx(expected)


class TestBounds:
    def test_more_workloads_than_200_share_other(self, accounting):
        for n in range(MOST_WORKLOADS + 50):
            accounting.add(record(workload=f"w{n}"))
        chat = accounting.of("demo", "chat")
        assert len(chat.workloads) == MOST_WORKLOADS + 1
        assert chat.workloads[OTHER].prompt_tokens == 50 * 100

    def test_a_client_that_calls_itself_other_takes_nobodys_place(self, accounting):
        accounting.add(record(workload=OTHER))
        for n in range(MOST_WORKLOADS):
            accounting.add(record(workload=f"w{n}"))
        chat = accounting.of("demo", "chat")
        assert chat.workloads[f"w{MOST_WORKLOADS - 1}"].prompt_tokens == 100
        assert chat.workloads[OTHER].prompt_tokens == 100

    def test_when_all_places_are_taken_the_idle_make_room(self, accounting, table):
        serve(table, "chat-r1-a")
        for n in range(MOST_WORKLOADS):
            accounting.add(record(workload=f"w{n}", arrival_s=0.0))
        accounting.add(record(workload="w1", arrival_s=HOUR_S - 100))
        accounting.add(record(workload="late", arrival_s=HOUR_S + 100))
        accounting.add(record(workload="late", arrival_s=HOUR_S + 101))
        chat = accounting.of("demo", "chat")
        assert set(chat.workloads) == {"w1", OTHER, "late"}

    def test_an_idle_workload_keeps_its_counts_while_there_is_room(self, accounting, table):
        serve(table, "chat-r1-a")
        accounting.add(record(workload="monthly", arrival_s=0.0))
        accounting.add(record(workload="busy", arrival_s=50 * HOUR_S))
        assert accounting.of("demo", "chat").workloads["monthly"].prompt_tokens == 100

    def test_what_is_gone_from_the_cluster_is_forgotten_a_while_later(self, accounting, table):
        serve(table, "old")
        accounting.add(record(instance="old", revision="r1", arrival_s=0.0))
        serve(table, "new", revision="r2")
        accounting.add(record(instance="new", revision="r2", arrival_s=600.0))
        assert set(accounting.of("demo", "chat").revisions) == {"r1", "r2"}
        accounting.add(record(instance="new", revision="r2", arrival_s=1000.0))
        chat = accounting.of("demo", "chat")
        assert set(chat.revisions) == {"r2"}
        assert set(chat.instances) == {("r2", "v7", "new")}

    def test_an_idle_instance_that_is_still_there_is_remembered(self, accounting, table):
        serve(table, "idle", "busy")
        accounting.add(record(instance="idle", arrival_s=0.0))
        accounting.add(record(instance="busy", arrival_s=50 * HOUR_S))
        assert ("r1", "v7", "idle") in accounting.of("demo", "chat").instances

    def test_a_service_that_is_gone_is_forgotten_a_while_later(self, accounting):
        accounting.add(record(service="gone", arrival_s=0.0))
        accounting.add(record(service="chat", arrival_s=600.0))
        assert "gone" in {s.name for s in accounting.services()}
        accounting.add(record(service="chat", arrival_s=1000.0))
        assert "gone" not in {s.name for s in accounting.services()}

    def test_a_service_that_comes_back_is_counted_anew_under_another_number(self, accounting):
        accounting.add(record(service="gone", arrival_s=0.0))
        before = accounting.of("demo", "gone").number
        accounting.add(record(service="chat", arrival_s=1000.0))
        again = accounting.of("demo", "gone")
        assert again.ended == 0
        assert again.number != before

    def test_requests_without_a_service_are_never_forgotten(self, accounting):
        accounting.add(refused(Code.NOT_FOUND, Outcome.BAD_REQUEST, service="", namespace="", arrival_s=0.0))
        accounting.add(record(arrival_s=1e6))
        assert accounting.of("", "").ended == 1
