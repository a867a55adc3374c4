import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.simulator import a_spec

from stoker.api.spec import InferenceServiceSpec
from stoker.core.revision import name_revision, spec_hash


def hash_of(spec, service_name="chat"):
    return spec_hash(InferenceServiceSpec.model_validate(spec), service_name=service_name)


BASE = hash_of(a_spec())
MODEL = {"uri": "hf://Qwen/Qwen2.5-7B-Instruct"}


def test_the_hash_of_a_spec_stays_what_it_was_when_it_was_first_released():
    assert BASE == "0bae5760"
    full = a_spec(
        model=MODEL
        | {"revision": "a1", "contextLength": 8192, "adapters": [{"name": "a", "uri": "hf://x/y"}]},
        engine={"args": ["--x"], "env": [{"name": "A", "value": "b"}], "performance": "throughput"},
        accelerator={"type": "nvidia-h100", "count": 2},
        availability={"spread": ["Zone"]},
        podTemplate={
            "tolerations": [{"key": "k", "tolerationSeconds": 30}],
            "resources": {"limits": {"cpu": 2}},
        },
    )
    assert hash_of(full) == "0a364cd5"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"replicas": 3}, id="replicas"),
        pytest.param({"scaling": {"minReplicas": 2, "maxReplicas": 9}}, id="scaling"),
        pytest.param({"queue": {"maxRequests": 5}}, id="queue"),
        pytest.param({"rollout": {"maxSurge": 0, "paused": True}}, id="rollout"),
        pytest.param({"rollbackTo": "chat-00000000"}, id="rollbackTo"),
        pytest.param({"availability": {"spareReplicas": 2}}, id="spare replicas"),
        pytest.param({"cache": {"prefetch": False}}, id="cache"),
        pytest.param({"objectives": {"successPercent": 99.9}}, id="objectives"),
        pytest.param({"cost": {"perAcceleratorHour": 2.49}}, id="cost"),
        pytest.param(
            {"accelerator": {"type": "nvidia-l40s", "alternatives": [{"type": "nvidia-h100"}]}},
            id="alternatives",
        ),
        pytest.param({"aFieldOfALaterVersion": True}, id="a field that this version does not know"),
        pytest.param({"engine": {"performance": "balanced"}}, id="a default that is spelled out"),
        pytest.param({"engine": {}, "podTemplate": {"resources": {}}}, id="empty maps"),
        pytest.param({"accelerator": {"type": "nvidia-l40s", "count": 1}}, id="the default count"),
        pytest.param(
            {"accelerator": {"type": "nvidia-l40s", "resource": "nvidia.com/gpu"}},
            id="the vendor's own resource",
        ),
        pytest.param({"model": MODEL | {"name": "chat"}}, id="the name of the object"),
        pytest.param({"availability": {"spread": ["Node", "Zone"]}}, id="a set in another order"),
    ],
)
def test_a_change_that_needs_no_new_pods_is_no_new_revision(fields):
    assert hash_of(a_spec(**fields)) == BASE


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"model": {"uri": "hf://Qwen/Qwen2.5-14B-Instruct"}}, id="uri"),
        pytest.param({"model": MODEL | {"revision": "a09a354"}}, id="revision"),
        pytest.param({"model": MODEL | {"sha256": "0" * 64}}, id="sha256"),
        pytest.param({"model": MODEL | {"name": "qwen"}}, id="name"),
        pytest.param({"model": MODEL | {"aliases": ["qwen"]}}, id="aliases"),
        pytest.param({"model": MODEL | {"credentialsSecret": "token"}}, id="credentials"),
        pytest.param({"model": MODEL | {"contextLength": 8192}}, id="context length"),
        pytest.param({"model": MODEL | {"quantization": "fp8"}}, id="quantization"),
        pytest.param({"model": MODEL | {"kvCacheDtype": "fp8"}}, id="KV cache"),
        pytest.param({"model": MODEL | {"adapters": [{"name": "a", "uri": "hf://a/b"}]}}, id="adapters"),
        pytest.param({"engine": {"image": "x:1"}}, id="image"),
        pytest.param({"engine": {"args": ["--max-num-seqs", "8"]}}, id="O14: arguments"),
        pytest.param({"engine": {"env": [{"name": "A", "value": "1"}]}}, id="env"),
        pytest.param({"engine": {"performance": "throughput"}}, id="performance"),
        pytest.param({"accelerator": {"type": "nvidia-h100"}}, id="accelerator"),
        pytest.param({"accelerator": {"type": "nvidia-l40s", "count": 2}}, id="count"),
        pytest.param({"accelerator": {"type": "nvidia-l40s", "resource": "acme.com/gpu"}}, id="resource"),
        pytest.param({"availability": {"spread": ["Node"]}}, id="spread over nodes only"),
        pytest.param({"availability": {"spread": []}}, id="spread over nothing"),
        pytest.param({"podTemplate": {"labels": {"team": "search"}}}, id="labels of the pods"),
        pytest.param({"podTemplate": {"resources": {"limits": {"memory": "64Gi"}}}}, id="resources"),
    ],
)
def test_a_change_that_needs_new_pods_is_a_new_revision(fields):
    assert hash_of(a_spec(**fields)) != BASE


def test_every_field_of_the_spec_is_either_in_the_pods_or_known_not_to_be():
    """A field that is added to the API must be thought of here."""
    assert set(InferenceServiceSpec.model_fields) == {
        *("model", "engine", "accelerator", "availability", "pod_template"),
        *("scaling", "queue", "rollout", "rollback_to", "cache", "objectives", "cost", "replicas"),
    }


@given(st.randoms(use_true_random=False))
def test_key_order_and_the_form_of_numbers_do_not_matter(random):
    spec = a_spec(
        model=MODEL | {"contextLength": 8192, "aliases": ["a", "b"]},
        podTemplate={"tolerations": [{"key": "k", "tolerationSeconds": 30}], "labels": {"x": "1", "y": "2"}},
    )
    floats = json.loads(json.dumps(spec).replace(": 30", ": 30.0").replace(": 8192", ": 8192.0"))
    assert hash_of(shuffled(floats, random)) == hash_of(spec)


def shuffled(value, random):
    if isinstance(value, dict):
        keys = list(value)
        random.shuffle(keys)
        return {key: shuffled(value[key], random) for key in keys}
    return [shuffled(item, random) for item in value] if isinstance(value, list) else value


def test_the_order_of_sets_and_of_adapters_does_not_matter():
    def adapters(*names):
        return [{"name": name, "uri": f"hf://x/{name}"} for name in names]

    one = a_spec(model=MODEL | {"aliases": ["a", "b"], "adapters": adapters("l", "m")})
    other = a_spec(model=MODEL | {"aliases": ["b", "a"], "adapters": adapters("m", "l")})
    assert hash_of(one) == hash_of(other)


@pytest.mark.parametrize("name", ["chat", "Llama-3.1-8B".lower(), "9b", "x" * 60, "a.b.c", "chat-5f3a9c01"])
def test_o18_a_revision_has_a_name_that_every_object_can_bear(name):
    revision = name_revision(InferenceServiceSpec.model_validate(a_spec()), service_name=name)
    assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", revision)
    assert len(revision) + len("-0123456789-abcde") <= 63


def test_o18_two_long_names_that_begin_alike_have_revisions_of_their_own():
    spec = InferenceServiceSpec.model_validate(a_spec())
    assert name_revision(spec, service_name="x" * 59 + "a") != name_revision(
        spec, service_name="x" * 59 + "b"
    )
