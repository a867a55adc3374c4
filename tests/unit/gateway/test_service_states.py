from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.gateway.cluster_objects import endpoint, endpoint_slice, service

from stoker.api.spec import QueueSpec
from stoker.api.status import InstanceState as Stage
from stoker.gateway import service_states
from stoker.gateway.service_states import ready_pods, service_state

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOW_S = 1000.0
POD = "chat-5f3a9c01-7d9f8c6b5-x2x4z"


def state_of(obj, *slices):
    return service_state(obj, slices, first_byte_timeout_s=600.0, ready_since_s=7.0, now=NOW, now_s=NOW_S)


def seen(*slices, status=None):
    """Of each instance: pod, address, and whether it leaves."""
    return {(i.name, i.host, i.leaving) for i in state_of(service(status=status), *slices).instances}


def test_a_new_service_without_a_status_has_no_instances_and_the_defaults():
    obj = service()
    del obj["status"]
    state = state_of(obj)
    assert (state.models, state.instances, state.weights, state.capacity) == (("chat",), (), {}, None)
    assert not state.starting
    assert not state.zero


def test_the_defaults_are_those_of_the_contract():
    assert QueueSpec().max_requests == service_states.DEFAULT_MAX_REQUESTS
    assert QueueSpec().max_wait_seconds == service_states.DEFAULT_MAX_WAIT_S


def test_the_stages_of_a_start_are_those_of_the_contract():
    assert {*service_states._STAGES, *service_states._NOT_COMING, "Serving"} == set(Stage)


@pytest.mark.parametrize(
    ("model", "models"),
    [
        pytest.param({}, ("chat",), id="the name of the object"),
        pytest.param({"name": "qwen"}, ("qwen",), id="the name of the model, and then not the object's"),
        pytest.param({"aliases": ["assistant"]}, ("chat", "assistant"), id="aliases after the name"),
        pytest.param({"aliases": ["chat", "a"]}, ("chat", "a"), id="an alias that is the name, once"),
    ],
)
def test_clients_may_say(model, models):
    assert state_of(service(**model)).models == models


def test_adapters_are_names_too():
    state = state_of(service(adapters=[{"name": "support-de", "uri": "hf://a/b"}]))
    assert state.adapters == ("support-de",)


def test_the_queue_is_as_the_spec_says():
    state = state_of(service(spec={"queue": {"maxRequests": 0, "maxWaitSeconds": 5}}))
    assert (state.max_requests, state.max_wait_s) == (0, 5.0)


def test_traffic_and_capacity_are_as_the_status_says():
    state = state_of(
        service(
            status={
                "traffic": [{"revision": "chat-a", "weight": 90}, {"revision": "chat-b", "weight": 10}],
                "capacity": {"requestsPerInstance": 12},
                "modelVersion": "a09a354",
            }
        )
    )
    assert state.weights == {"chat-a": 90, "chat-b": 10}
    assert (state.capacity, state.model_version) == (12, "a09a354")


@pytest.mark.parametrize(
    ("capacity", "at_once"),
    [
        pytest.param({}, None, id="not known"),
        pytest.param({"requestsPerInstance": 0}, None, id="nothing fits by the estimate"),
        pytest.param({"requestsPerInstance": 12}, 12, id="requests of the full length alone"),
        pytest.param(
            {"requestsPerInstance": 1, "kvCacheTokens": 215_744, "maxNumSeqs": 1024},
            105,
            id="usual requests are shorter than the context length",
        ),
        pytest.param(
            {"requestsPerInstance": 700, "kvCacheTokens": 470_016},
            700,
            id="and where they can't be so long, as many as fit",
        ),
        pytest.param(
            {"requestsPerInstance": 2, "kvCacheTokens": 470_016, "maxNumSeqs": 2},
            2,
            id="never more than the engine runs",
        ),
        pytest.param({"maxNumSeqs": 16}, 16, id="a model that keeps nothing"),
    ],
)
def test_an_instance_takes_as_many_usual_requests_as_it_holds(capacity, at_once):
    assert state_of(service(status={"capacity": capacity})).capacity == at_once


@pytest.mark.parametrize(
    ("capacity", "endpoints", "max_tokens"),
    [
        pytest.param({"kvCacheTokens": 470_016}, 3, 1_410_048, id="as many as all hold at once"),
        pytest.param({"kvCacheTokens": 470_016}, 0, 470_016, id="as many as the first will hold"),
        pytest.param({}, 3, None, id="not known: no bound"),
        pytest.param({"kvCacheTokens": 0}, 3, None, id="nothing fits by the estimate: no bound"),
    ],
)
def test_no_more_tokens_wait_than_the_instances_that_are_ready_hold(capacity, endpoints, max_tokens):
    ready = [endpoint(f"p{i}", f"10.0.0.{i}") for i in range(endpoints)]
    leaving = endpoint("gone", "10.0.1.1", ready=False)
    state = state_of(service(status={"capacity": capacity}), endpoint_slice(*ready, leaving))
    assert state.max_tokens == max_tokens


def test_a_request_takes_no_more_tokens_than_the_context_length():
    assert state_of(service(status={"capacity": {"contextLength": 4096}})).context_length == 4096
    assert state_of(service()).context_length is None


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        pytest.param([endpoint_slice(endpoint("a"))], {("a", "10.0.0.1", False)}, id="a Ready pod serves"),
        pytest.param(
            [endpoint_slice(endpoint("a", ready=False))], {("a", "10.0.0.1", True)}, id="one not Ready leaves"
        ),
        pytest.param(
            [endpoint_slice(endpoint("a", ready=False, terminating=True))],
            {("a", "10.0.0.1", True)},
            id="G4: one that terminates leaves though it still serves",
        ),
        pytest.param(
            [endpoint_slice(endpoint("a", terminating=True))],
            {("a", "10.0.0.1", True)},
            id="G4: one that terminates leaves though it is said to be Ready",
        ),
        pytest.param(
            [endpoint_slice(endpoint("a", ready=None))], {("a", "10.0.0.1", False)}, id="null means Ready"
        ),
        pytest.param([endpoint_slice(endpoint("a", ""))], set(), id="G3: without an address it is gone"),
        pytest.param(
            [endpoint_slice(endpoint("a"), endpoint("b", "10.0.0.2"))],
            {("a", "10.0.0.1", False), ("b", "10.0.0.2", False)},
            id="two pods",
        ),
        pytest.param(
            [endpoint_slice(endpoint("a")), endpoint_slice(endpoint("a", ready=False), name="chat-b")],
            {("a", "10.0.0.1", True)},
            id="in two slices, what says stop counts",
        ),
        pytest.param(
            [
                endpoint_slice(endpoint("a", "fd00::1"), family="IPv6", name="chat-6"),
                endpoint_slice(endpoint("a")),
            ],
            {("a", "10.0.0.1", False)},
            id="a pod with two addresses is one instance",
        ),
        pytest.param(
            [endpoint_slice(endpoint("a", "fd00::1"), family="IPv6")],
            {("a", "fd00::1", False)},
            id="IPv6 alone",
        ),
        pytest.param([endpoint_slice(endpoint("a"), family="FQDN")], set(), id="names are not connected to"),
        pytest.param([endpoint_slice(endpoint("a"), ports=[])], set(), id="no port, no instance"),
        pytest.param([endpoint_slice() | {"endpoints": None}], set(), id="null for no endpoints"),
        pytest.param(
            [endpoint_slice({"addresses": ["10.0.0.9"]})],
            {("10.0.0.9", "10.0.0.9", False)},
            id="an address without a pod goes by its address",
        ),
    ],
)
def test_instances_are_what_the_slices_say(slices, expected):
    assert seen(*slices) == expected


def test_the_port_is_the_one_with_the_services_name():
    ports = [{"name": "probes", "port": 8081}, {"name": "http", "port": 8000}]
    (instance,) = state_of(service(), endpoint_slice(endpoint("a"), ports=ports)).instances
    assert (instance.port, instance.ready_since_s) == (8000, 7.0)


REVISIONS = [
    {"name": "chat-b", "phase": "Candidate", "modelRevision": "v2"},
    {"name": "chat-5f3a9c01", "phase": "Previous", "modelRevision": "v0"},
    {"name": "chat-a", "phase": "Serving", "modelRevision": "v1"},
]


@pytest.mark.parametrize(
    ("pod", "instances", "expected"),
    [
        pytest.param(POD, [{"name": POD, "revision": "chat-b", "state": "Serving"}], ("chat-b", "v2"),
                     id="of the revision that the status says"),
        pytest.param(POD, [{"name": POD, "revision": "chat-b", "state": "Serving", "modelVersion": "v2.1"}],
                     ("chat-b", "v2.1"), id="of the version that the instance itself says"),
        pytest.param(POD, [], ("chat-5f3a9c01", "v0"), id="of the revision in its name, at first"),
        pytest.param("stranger", [], ("chat-a", "v1"), id="of the serving revision when nothing says"),
    ],
)  # fmt: skip
def test_an_instance_is(pod, instances, expected):
    status = {"revisions": REVISIONS, "instances": instances}
    (instance,) = state_of(service(status=status), endpoint_slice(endpoint(pod))).instances
    assert (instance.revision, instance.model_version) == expected


def test_an_instance_is_the_same_before_and_after_the_status_knows_it():
    status = {"revisions": [{"name": "chat-5f3a9c01", "phase": "Serving"}]}
    known = status | {"instances": [{"name": POD, "revision": "chat-5f3a9c01", "state": "Serving"}]}
    before, after = (state_of(service(status=s), endpoint_slice(endpoint(POD))) for s in (status, known))
    assert before.instances == after.instances


def record(state, *, since=None):
    told = {"name": f"pod-{state}", "revision": "chat-a", "state": state}
    return told | ({"since": since} if since else {})


STALLED = [{"type": "Stalled", "status": "True"}]


@pytest.mark.parametrize(
    ("status", "starting"),
    [
        pytest.param({"scaling": {"desired": 1}}, True, id="wanted and not made yet"),
        pytest.param({"scaling": {"desired": 0}}, False, id="none wanted"),
        pytest.param({"scaling": {"desired": 1}, "instances": [record("Loading")]}, True, id="loading"),
        pytest.param(
            {"scaling": {"desired": 1}, "instances": [record("Serving")]},
            True,
            id="gone from the slices, and the status does not know yet",
        ),
        pytest.param({"scaling": {"desired": 1}, "instances": [record("Failed")]}, False, id="all failed"),
        pytest.param(
            {"scaling": {"desired": 1}, "instances": [record("Draining")]}, True, id="the only one drains"
        ),
        pytest.param(
            {"scaling": {"desired": 1}, "conditions": STALLED, "instances": [record("Loading")]},
            False,
            id="stalled: waiting does not help",
        ),
    ],
)
def test_an_instance_is_starting(status, starting):
    assert state_of(service(status=status)).starting is starting


def test_nothing_is_starting_when_all_that_are_wanted_are_ready():
    state = state_of(service(status={"scaling": {"desired": 1}}), endpoint_slice(endpoint("a")))
    assert not state.starting
    assert state.next_instance_at_s is None


@pytest.mark.parametrize(
    ("spec", "desired", "zero"),
    [
        pytest.param({}, 0, True, id="at zero because nobody asks"),
        pytest.param({"replicas": 0}, 0, False, id="stopped by a person: a request does not wake it"),
        pytest.param({}, 1, False, id="not at zero"),
    ],
)
def test_zero(spec, desired, zero):
    assert state_of(service(spec=spec, status={"scaling": {"desired": desired}})).zero is zero


STARTUP = {
    "p90Seconds": 60,
    "stages": [{"name": "Loading", "p90Seconds": 40.0}, {"name": "WarmingUp", "p90Seconds": 5.0}],
}


def ago(seconds):
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("status", "in_s"),
    [
        pytest.param(
            {"startup": STARTUP, "instances": [record("Loading", since=ago(12))]}, 33, id="rest of its stages"
        ),
        pytest.param(
            {"startup": STARTUP, "instances": [record("Loading", since=ago(90))]},
            5,
            id="a stage that is late",
        ),
        pytest.param(
            {
                "startup": STARTUP,
                "instances": [record("Loading", since=ago(12)), record("WarmingUp", since=ago(1))],
            },
            4,
            id="the first of two",
        ),
        pytest.param(
            {"startup": STARTUP, "scaling": {"desired": 3, "decisions": [{"time": ago(10)}]}},
            50,
            id="decided and not made yet",
        ),
        pytest.param({"instances": [record("Loading", since=ago(12))]}, None, id="no start was measured"),
        pytest.param({"startup": {}, "scaling": {"desired": 3}}, None, id="nothing is known"),
    ],
)
def test_the_next_instance_is_expected(status, in_s):
    state = state_of(service(status={"scaling": {"desired": 3}} | status))
    assert state.next_instance_at_s == (None if in_s is None else NOW_S + in_s)


def test_pods_that_get_requests_are_counted_once_each():
    assert ready_pods(()) == 0
    slices = (
        endpoint_slice(endpoint("a"), endpoint("b", "10.0.0.2"), endpoint("c", "10.0.0.3", ready=False)),
        endpoint_slice(endpoint("a", "fd00::1"), family="IPv6", name="six"),
    )
    assert ready_pods(slices) == 2
