import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.diff import first_difference


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        pytest.param({"replicas": 3}, {"replicas": 3, "paused": False}, id="fields of others are theirs"),
        pytest.param(
            {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
            {"limits": {"cpu": "1", "memory": "1Gi"}},
            id="a quantity in the API server's spelling",
        ),
        pytest.param(
            {"emptyDir": {"sizeLimit": "2048Mi"}}, {"emptyDir": {"sizeLimit": "2Gi"}}, id="a size limit"
        ),
        pytest.param({"emptyDir": {}}, {"emptyDir": {}}, id="an empty map"),
        pytest.param(
            {"annotations": {}, "args": [], "readOnly": False, "value": ""}, {}, id="zero values left out"
        ),
        pytest.param(
            {"containers": [{"name": "b", "image": "x"}, {"name": "a"}]},
            {"containers": [{"name": "a"}, {"name": "sidecar"}, {"name": "b", "image": "x"}]},
            id="named items in any order, with more of others",
        ),
        pytest.param({"volumes": []}, {"volumes": [{"name": "theirs"}]}, id="only named items of others"),
        pytest.param(
            {"ports": [{"containerPort": 8000, "name": "http"}]},
            {"ports": [{"containerPort": 8000, "name": "http", "protocol": "TCP"}]},
            id="a port without its default protocol",
        ),
        pytest.param(
            {"tolerations": [{"key": "gpu"}]},
            {"tolerations": [{"key": "gpu", "operator": "Equal"}]},
            id="defaults inside the items of a list",
        ),
        pytest.param({"weight": 1.0}, {"weight": 1}, id="a number with and without a point"),
    ],
)
def test_says_nothing_when_the_live_object_says_it_all(desired, live):
    assert first_difference(desired, live) is None


@pytest.mark.parametrize(
    ("desired", "live", "path"),
    [
        pytest.param({"spec": {"replicas": 3}}, {"spec": {"replicas": 1}}, "spec.replicas", id="a value"),
        pytest.param({"replicas": 0}, {}, "replicas", id="no replicas is not the same as none said"),
        pytest.param({"spec": {"a": 1}}, {"spec": "x"}, "spec", id="another kind of value"),
        pytest.param({"args": ["a"]}, {"args": "a"}, "args", id="text is not a list"),
        pytest.param(
            {"args": ["a", "b"]}, {"args": ["b", "a"]}, "args.0", id="the order of arguments counts"
        ),
        pytest.param({"args": ["a"]}, {"args": ["a", "b"]}, "args", id="one argument too many"),
        pytest.param({"args": []}, {"args": ["a"]}, "args", id="an argument where there should be none"),
        pytest.param({"env": ["A"]}, {"env": [{"name": "A"}]}, "env.0", id="items of another kind"),
        pytest.param(
            {"spec": {"selector": {"app": "a"}}},
            {"spec": {"selector": {"app": "a", "extra": "b"}}},
            "spec.selector",
            id="a selector with one more label selects something else",
        ),
        pytest.param(
            {"env": [{"name": "A", "value": "1"}]},
            {"env": [{"name": "A", "value": "2"}]},
            "env.A.value",
            id="env",
        ),
        pytest.param({"env": [{"name": "A"}]}, {"env": []}, "env.A", id="a named item that is gone"),
        pytest.param(
            {"ports": [{"port": 80, "targetPort": 8000}]},
            {"ports": [{"port": 80, "targetPort": 9000, "protocol": "TCP"}]},
            "ports.80/TCP.targetPort",
            id="a port of a Service",
        ),
        pytest.param({"limits": {"cpu": "2"}}, {"limits": {"cpu": "1"}}, "limits.cpu", id="another quantity"),
        pytest.param({"limits": {"cpu": "2"}}, {"limits": {}}, "limits.cpu", id="a quantity that is gone"),
        pytest.param({"value": "1000m"}, {"value": "1"}, "value", id="text that only looks like a quantity"),
        pytest.param({"flag": True}, {"flag": 1}, "flag", id="true is not one"),
        pytest.param(3, 4, ".", id="at the top"),
        pytest.param([1], [2], "0", id="a list at the top"),
    ],
)
def test_names_the_first_difference(desired, live, path):
    assert first_difference(desired, live) == path


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "1", "1000m"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=10,
)


@given(_JSON)
def test_an_object_never_differs_from_itself(value):
    assert first_difference(value, copy.deepcopy(value)) is None


@given(st.dictionaries(st.sampled_from("abc"), _JSON), st.dictionaries(st.sampled_from("xyz"), _JSON))
def test_whatever_others_add_is_no_difference(ours, theirs):
    assert first_difference(ours, {**ours, **theirs}) is None
