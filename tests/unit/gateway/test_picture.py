from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gateway.cluster_objects import endpoint, endpoint_slice, service

from stoker.api.names import child_name
from stoker.gateway.picture import Picture
from stoker.kube.watch import ObjectKey

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def picture(*objects):
    made = Picture(first_byte_timeout_s=600.0)
    for obj in objects:
        told(made, obj)
    return made


def key_of(obj):
    return ObjectKey(obj["metadata"]["namespace"], obj["metadata"]["name"])


def told(made, obj, *, gone=False):
    take = made.slice if "addressType" in obj else made.service
    take(key_of(obj), None if gone else obj)


def hosts(made):
    """Addresses of each service that is served."""
    states = made.states(ready_since_s=0.0, now=NOW, now_s=0.0)
    return {f"{s.namespace}/{s.name}": [i.host for i in s.instances] for s in states}


def test_a_slice_belongs_to_the_service_that_its_label_names():
    made = picture(service(), service("other"), endpoint_slice(endpoint("a")))
    assert hosts(made) == {"prod/chat": ["10.0.0.1"], "prod/other": []}


def test_a_slice_may_come_before_its_service():
    assert hosts(picture(endpoint_slice(endpoint("a")), service())) == {"prod/chat": ["10.0.0.1"]}


def test_a_service_whose_name_no_service_of_kubernetes_can_have_is_found_by_its_childs():
    made = picture(service("llama-3.1"), endpoint_slice(endpoint("a"), of=child_name("llama-3.1")))
    assert hosts(made) == {"prod/llama-3.1": ["10.0.0.1"]}


def test_the_same_name_in_another_namespace_is_another_service():
    made = picture(service(), service(namespace="test"), endpoint_slice(endpoint("a"), namespace="test"))
    assert hosts(made) == {"prod/chat": [], "test/chat": ["10.0.0.1"]}


def test_what_is_gone_is_gone():
    first, second = endpoint_slice(endpoint("a")), endpoint_slice(endpoint("b", "10.0.0.2"), name="second")
    made = picture(service(), first, second)
    told(made, first, gone=True)
    assert hosts(made) == {"prod/chat": ["10.0.0.2"]}
    told(made, service(), gone=True)
    assert hosts(made) == {}


def test_a_slice_that_moves_to_another_service_leaves_the_first():
    made = picture(service(), service("other"), endpoint_slice(endpoint("a")))
    hosts(made)
    told(made, endpoint_slice(endpoint("a"), of="other"))
    assert hosts(made) == {"prod/chat": [], "prod/other": ["10.0.0.1"]}


def test_a_slice_without_a_label_belongs_to_nobody():
    slice_ = endpoint_slice(endpoint("a"))
    del slice_["metadata"]["labels"]
    assert hosts(picture(service(), slice_)) == {"prod/chat": []}


def test_an_object_that_makes_no_sense_leaves_its_service_as_it_was_and_no_other(caplog):
    made = picture(service(), service("other"), endpoint_slice(endpoint("a")))
    assert hosts(made)["prod/chat"] == ["10.0.0.1"]
    told(made, service() | {"spec": None})
    told(made, endpoint_slice(endpoint("b", "10.0.0.2"), of="other", name="new"))
    assert hosts(made) == {"prod/chat": ["10.0.0.1"], "prod/other": ["10.0.0.2"]}
    assert [record.service for record in caplog.records] == ["prod/chat"]


OBJECTS = (
    service(),
    service("other"),
    endpoint_slice(endpoint("a")),
    endpoint_slice(endpoint("b", "10.0.0.2"), name="second"),
    endpoint_slice(endpoint("b", "10.0.0.2"), name="second", of="other"),
    endpoint_slice(endpoint("c", "10.0.0.3", ready=False), name="third", of="other"),
)
STEPS = st.lists(st.tuples(st.sampled_from(OBJECTS), st.booleans(), st.booleans()), max_size=12)


@given(STEPS)
@settings(max_examples=50)
def test_only_what_is_there_in_the_end_counts_whatever_came_before(steps):
    made, there = picture(), {}
    for obj, gone, look in steps:
        told(made, obj, gone=gone)
        kind = "slice" if "addressType" in obj else "service"
        there.pop((kind, key_of(obj)), None)
        if not gone:
            there[kind, key_of(obj)] = obj
        if look:
            hosts(made)
    fresh = hosts(picture(*there.values()))
    assert {name: sorted(found) for name, found in hosts(made).items()} == {
        name: sorted(found) for name, found in fresh.items()
    }
