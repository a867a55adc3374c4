from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gateway.waiters import Waiter

from stoker.gateway.instances import Evidence
from stoker.gateway.table import UNKNOWN_CAPACITY, InstanceState, RoutingTable, ServiceState


def pod(name="chat-1", host="10.0.0.1", **fields):
    return InstanceState(name=name, host=host, port=8000, revision="chat-r1", **fields)


def service(name="chat", *instances, namespace="demo", created="2026-01-01T00:00:00Z", **fields):
    fields.setdefault("models", (name,))
    return ServiceState(namespace=namespace, name=name, created=created, instances=instances, **fields)


@pytest.fixture
def table():
    return RoutingTable(draw=lambda: 0.0, on_wake=lambda service: None)


def update(table, *states, replicas=1, now_s=0.0):
    return table.update(states, replicas=replicas, now_s=now_s)


def names(instances):
    return [i.name for i in instances]


def test_a_model_is_found_by_its_name_its_aliases_and_its_adapters(table):
    update(table, service("chat", models=("qwen", "assistant"), adapters=("support",)))
    found = [table.find(name) for name in ("qwen", "assistant", "support")]
    assert [(r.service.name, r.model, r.adapter) for r in found] == [
        ("chat", "qwen", ""),
        ("chat", "assistant", ""),
        ("chat", "support", "support"),
    ]
    assert table.find("chat") is None


def test_the_full_name_means_the_model_of_that_namespace_by_the_name_that_the_engine_knows(table):
    update(table, service(namespace="a"), service(namespace="b", created="2026-02-01T00:00:00Z"))
    assert [(table.find(f"{n}/chat").service.namespace, table.find(f"{n}/chat").model) for n in "ab"] == [
        ("a", "chat"),
        ("b", "chat"),
    ]


def test_of_two_services_with_one_name_the_older_has_it_whatever_the_order(table):
    old, new = service(namespace="z"), service(namespace="a", created="2026-02-01T00:00:00Z")
    for states in ((old, new), (new, old)):
        update(table, *states)
        assert table.find("chat").service.namespace == "z"
    update(table, new)
    assert table.find("chat").service.namespace == "a"


def test_a_bare_name_with_a_slash_does_not_hide_the_full_name_of_another(table):
    update(
        table,
        service("other", models=("demo/chat",)),
        service("chat", created="2026-02-01T00:00:00Z"),
    )
    assert table.find("demo/chat").service.name == "chat"
    assert table.find("demo/demo/chat").service.name == "other"


def test_what_is_served_is_listed_once_with_versions_and_adapters(table):
    update(
        table,
        service("chat", models=("chat", "assistant"), adapters=("support",), model_version="a09a354"),
        service(namespace="b", created="2026-02-01T00:00:00Z"),
    )
    listed = table.models()
    assert [(m["id"], m["parent"], m["version"], m["owned_by"]) for m in listed] == [
        ("chat", None, "a09a354", "demo"),
        ("assistant", None, "a09a354", "demo"),
        ("support", "chat", "a09a354", "demo"),
        ("b/chat", None, None, "b"),
    ]
    assert all(table.find(m["id"]) for m in listed)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        pytest.param(0, "this gateway serves no model.", id="none"),
        pytest.param(2, "this gateway serves m0, m1.", id="all of a few"),
        pytest.param(25, "m19 and 5 more.", id="twenty of many"),
    ],
)
def test_an_unknown_model_is_answered_with_what_there_is(table, count, text):
    if count:
        update(table, service(models=tuple(f"m{i}" for i in range(count))))
    rejection = table.not_found("x" * 1000)
    assert (rejection.status, rejection.code, rejection.param) == (404, "model_not_found", "model")
    assert rejection.message.endswith(text)
    assert len(rejection.message) < 500


def test_a_new_instance_is_told_once_and_a_gone_one_too(table):
    update(table, service())
    assert names(update(table, service("chat", pod())).new) == ["chat-1"]
    assert update(table, service("chat", pod())).new == ()
    changes = update(table, service())
    assert (names(changes.new), names(changes.gone)) == ([], ["chat-1"])
    assert update(table, service()).gone == ()


def test_an_evicted_pod_without_an_address_is_removed(table):
    """G3: pod evicted, MODIFIED with an empty address."""
    update(table, service("chat", pod()))
    changes = update(table, service("chat", pod(host="")))
    assert names(changes.gone) == ["chat-1"]
    assert table.find("chat").service.router.instances == []


def test_a_terminating_pod_gets_no_new_requests_while_its_running_ones_finish(table):
    """G4: pod terminating but still Ready."""
    update(table, service("chat", pod()))
    queue = table.find("chat").service.queue
    running = Waiter()
    queue.offer(running, 0.0)
    changes = update(table, service("chat", pod(leaving=True)))
    assert changes.gone == ()
    late = Waiter()
    queue.offer(late, 0.0)
    assert late.code == "no_instance"
    running.release(Evidence.ANSWERED)
    assert running.instance.in_flight == 0


def test_a_pod_that_was_not_ready_yet_begins_when_it_is(table):
    assert update(table, service("chat", pod(leaving=True))).new == ()
    changes = update(table, service("chat", pod(ready_since_s=100.0), capacity=20), now_s=100.0)
    assert names(changes.new) == ["chat-1"]
    queue = table.find("chat").service.queue
    waiters = [Waiter() for _ in range(20)]
    for waiter in waiters:
        waiter.now_s = 100.0
        queue.offer(waiter, 100.0)
    assert changes.new[0].in_flight == 5


def test_a_revision_that_becomes_known_later_changes_the_instance_not_which_it_is(table):
    early = InstanceState(name="p", host="10.0.0.1", port=8000, revision="chat-r1")
    weights = {"chat-r1": 1, "chat-r2": 0}
    (instance,) = update(table, service("chat", early, pod(), weights=weights)).new[:1]
    instance.acquire(0)
    late = replace(early, revision="chat-r2", model_version="v2")
    changes = update(table, service("chat", late, pod(), weights=weights))
    assert (changes.new, changes.gone) == ((), ())
    assert (instance.revision, instance.model_version, instance.in_flight) == ("chat-r2", "v2", 1)
    found = table.find("chat").service.router
    assert {found.choose(Waiter(), 0).name for _ in range(5)} == {"chat-1"}


def test_a_pod_with_another_address_is_another_instance(table):
    update(table, service("chat", pod(host="10.0.0.1")))
    changes = update(table, service("chat", pod(host="10.0.0.2")))
    assert [i.host for i in changes.new + changes.gone] == ["10.0.0.2", "10.0.0.1"]


def test_an_instance_that_comes_back_keeps_count_of_what_it_still_has(table):
    (instance,) = update(table, service("chat", pod())).new
    ticket = instance.acquire(0)
    update(table, service())
    update(table, service())
    (again,) = update(table, service("chat", pod())).new
    assert again is instance
    assert again.in_flight == 1
    again.release(ticket, Evidence.ANSWERED, 1)


def test_a_gone_instance_is_forgotten_when_it_has_nothing_in_flight_any_more(table):
    (instance,) = update(table, service("chat", pod())).new
    ticket = instance.acquire(0)
    update(table, service())
    departed = table.find("chat").service.departed
    assert list(departed.values()) == [instance]
    instance.release(ticket, Evidence.ANSWERED, 1)
    update(table, service())
    assert table.find("chat").service.departed == {}


def test_waiters_start_when_an_update_brings_an_instance(table):
    update(table, service("chat", starting=True))
    waiter = Waiter()
    table.find("chat").service.queue.offer(waiter, 0.0)
    assert waiter.waits
    update(table, service("chat", pod()), now_s=1.0)
    assert waiter.instance.name == "chat-1"


def test_the_waiters_of_a_deleted_service_are_refused_as_the_model_is_gone(table):
    update(table, service("chat", starting=True))
    waiter = Waiter()
    table.find("chat").service.queue.offer(waiter, 0.0)
    update(table)
    assert waiter.code == "model_not_found"
    assert table.find("chat") is None


def test_instances_of_a_deleted_service_are_gone(table):
    update(table, service("chat", pod()))
    assert names(update(table).gone) == ["chat-1"]


def test_a_service_that_needs_waking_is_named():
    woken = []
    table = RoutingTable(draw=lambda: 0.0, on_wake=woken.append)
    update(table, service("chat", zero=True))
    table.find("chat").service.queue.offer(Waiter(), 0.0)
    assert [repr(s) for s in woken] == ["Service(demo/chat)"]


def test_another_name_or_age_of_a_service_changes_what_names_mean(table):
    old, new = service("a", models=("x",)), service("b", models=("x",), created="2026-02-01T00:00:00Z")
    update(table, old, new)
    assert table.find("x").service.name == "a"
    update(table, replace(old, models=("y",)), new)
    assert [table.find(m).service.name for m in "xy"] == ["b", "a"]
    update(table, replace(old, created="2026-03-01T00:00:00Z"), new)
    assert table.find("x").service.name == "b"


def test_what_has_not_changed_costs_next_to_nothing(table):
    """A picture of a thousand services comes with each event; the loop must not stand still for it."""
    states = [service(f"s{i}", *(pod(f"s{i}-{j}") for j in range(5))) for i in range(1000)]
    update(table, *states)
    before = {key: s.instances for key, s in table.services.items()}
    routes = table._routes
    update(table, *states, now_s=1.0)
    assert table._routes is routes
    assert all(s.instances is before[key] for key, s in table.services.items())


@pytest.mark.parametrize(
    ("max_requests", "capacity", "replicas", "queue", "limit"),
    [
        pytest.param(100, 64, 1, 100, 64, id="one gateway has all"),
        pytest.param(100, 5, 3, 33, 2, id="three share the queue, and an instance as near as they can"),
        pytest.param(2, 4, 3, 1, 1, id="nobody's share is nothing"),
        pytest.param(0, 1, 8, 0, 1, id="a queue for none stays one"),
        pytest.param(100, None, 1, 100, UNKNOWN_CAPACITY, id="an unknown capacity is the default"),
        pytest.param(100, 0, 1, 100, UNKNOWN_CAPACITY, id="so is zero, which no instance has"),
    ],
)
def test_each_gateway_replica_takes_its_share(table, max_requests, capacity, replicas, queue, limit):
    state = service(
        "chat", pod(), max_requests=max_requests, capacity=capacity, max_tokens=1000, context_length=400
    )
    (instance,) = update(table, state, replicas=replicas).new
    found = table.find("chat").service.queue
    assert (found.max_requests, instance.limit, found.max_tokens) == (queue, limit, 1000 // replicas)
    assert found.context_length == 400


def test_shares_follow_the_number_of_gateways_at_once(table):
    (instance,) = update(table, service("chat", pod(), capacity=64), replicas=1).new
    update(table, service("chat", pod(), capacity=64), replicas=2)
    assert instance.limit == 32


PODS = st.builds(
    InstanceState,
    name=st.sampled_from(["p1", "p2", "p3"]),
    host=st.sampled_from(["", "10.0.0.1", "10.0.0.2"]),
    port=st.just(8000),
    revision=st.sampled_from(["r1", "r2"]),
    leaving=st.booleans(),
)
SERVICES = st.builds(
    ServiceState,
    namespace=st.sampled_from(["a", "b"]),
    name=st.sampled_from(["x", "y"]),
    created=st.sampled_from(["2026-01-01", "2026-01-02"]),
    models=st.sampled_from([("x",), ("y",), ("x", "y"), ("a/x",)]),
    weights=st.sampled_from([{}, {"r1": 100}, {"r1": 90, "r2": 10}, {"r2": 0}]),
    capacity=st.sampled_from([None, 1, 8]),
    instances=st.lists(PODS, max_size=3, unique_by=lambda p: p.name).map(tuple),
)
PICTURES = st.lists(
    st.lists(SERVICES, max_size=4, unique_by=lambda s: (s.namespace, s.name)), min_size=1, max_size=6
)


def seen(table):
    """All that requests depend on."""
    return {
        key: (
            s.state,
            s.queue.max_requests,
            sorted((i.name, i.host, i.limit, i.leaving, i.revision) for i in s.instances.values()),
            sorted((i.name, i.host) for i in s.router.instances),
        )
        for key, s in table.services.items()
    }, table.models()


@settings(max_examples=60)
@given(PICTURES)
def test_only_the_last_picture_counts_whatever_came_before(pictures):
    table, fresh = (RoutingTable(draw=lambda: 0.0, on_wake=lambda service: None) for _ in range(2))
    there = set()
    for picture in pictures:
        changes = table.update(picture, replicas=1, now_s=0.0)
        there |= set(changes.new)
        there -= set(changes.gone)
    fresh.update(pictures[-1], replicas=1, now_s=0.0)
    assert seen(table) == seen(fresh)
    usable = {i for s in table.services.values() for i in s.router.instances}
    assert usable <= there


@given(SERVICES)
def test_an_update_that_changes_nothing_changes_nothing(state):
    table = RoutingTable(draw=lambda: 0.0, on_wake=lambda service: None)
    update(table, state)
    before = seen(table)
    changes = update(table, replace(state))
    assert (changes.new, changes.gone, seen(table)) == ((), (), before)
