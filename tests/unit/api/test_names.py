"""Names of what Stoker makes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api import names

_DNS_1035_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"

OBJECT_NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", fullmatch=True)
"""What the API server takes for the name of an InferenceService."""
LOOK_ALIKES = st.sampled_from(["a.b", "a-b", "a--b", "1", "m-1"]).flatmap(
    lambda name: st.sampled_from([name, names.child_name(name)])
)
"""Names that become the same by replacing characters, and names made to look like a child's."""
SPEC_HASHES = st.from_regex(r"[0-9a-f]{8}", fullmatch=True)


@pytest.mark.parametrize(
    ("service_name", "child"),
    [
        pytest.param("chat", "chat", id="a valid name stays"),
        pytest.param("llama-3.1-8b", "llama-3-1-8b-7b633509", id="dots become dashes"),
        pytest.param("4x-model", "m-4x-model-96afde81", id="a digit does not come first"),
        pytest.param("chat-5f3a9c01", "chat-5f3a9c01-99f605cd", id="what ends like a hash gets one"),
        pytest.param("a" * 63, "a" * 63, id="as long as it may be"),
        pytest.param("a" * 64, "a" * 54 + "-ffe054fe", id="too long"),
        pytest.param("...", "m-ab5df625", id="nothing that is valid"),
    ],
)
def test_the_child_of_a_service(service_name, child):
    assert names.child_name(service_name) == child


@given(name=st.text(min_size=1, max_size=80) | OBJECT_NAMES, limit=st.integers(20, 63))
def test_a_child_name_is_a_label_that_a_service_may_have(name, limit):
    child = names.child_name(name, limit=limit)
    assert re.fullmatch(_DNS_1035_LABEL, child)
    assert len(child) <= limit


@given(one=OBJECT_NAMES | LOOK_ALIKES, other=OBJECT_NAMES | LOOK_ALIKES)
def test_two_services_never_share_their_children(one, other):
    assert (names.child_name(one) == names.child_name(other)) == (one == other)


@given(
    one=OBJECT_NAMES | LOOK_ALIKES,
    other=OBJECT_NAMES | LOOK_ALIKES,
    hashes=st.tuples(SPEC_HASHES, SPEC_HASHES),
)
def test_two_revisions_never_share_their_deployment(one, other, hashes):
    same_name = names.revision_name(one, hashes[0]) == names.revision_name(other, hashes[1])
    assert same_name == ((one, hashes[0]) == (other, hashes[1]))


@given(name=OBJECT_NAMES, spec_hash=SPEC_HASHES)
def test_the_host_name_of_a_revisions_pod_is_not_cut(name, spec_hash):
    revision = names.revision_name(name, spec_hash)
    pod = f"{revision}-5d5f8b9c7d-abcde"
    assert re.fullmatch(_DNS_1035_LABEL, pod)
    assert len(pod) <= 63
    assert revision.endswith(f"-{spec_hash}")


def test_a_short_hash_is_the_start_of_sha256():
    assert names.short_hash("chat") == "31e06f7d"
