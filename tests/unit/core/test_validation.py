from dataclasses import replace

import pytest
from tests.unit.core.simulator import CONFIG, a_service, a_spec

from stoker.core.model import Refusal
from stoker.core.sources import Scheme
from stoker.core.validation import ValidSpec, read_spec

MODEL = {"uri": "hf://Qwen/Qwen2.5-7B-Instruct"}


def test_a_good_spec_comes_with_its_source():
    answer = read_spec(a_service(), config=CONFIG)
    assert isinstance(answer, ValidSpec)
    assert answer.source.scheme is Scheme.HF
    assert answer.spec.model.uri == MODEL["uri"]


@pytest.mark.parametrize(
    ("spec", "reason", "told"),
    [
        pytest.param(
            {}, "InvalidSpec", "`spec.model`: Field required (and 1 more)", id="a spec without anything"
        ),
        pytest.param(
            a_spec(scaling={"minReplicas": -1}),
            "InvalidSpec",
            "`spec.scaling.minReplicas`: Input should be greater than or equal to 0",
            id="a number out of its range",
        ),
        pytest.param(
            a_spec(model={"uri": "ftp://x/y"}),
            "InvalidSpec",
            "`model.uri`: the source must start with",
            id="a source of a kind that does not exist",
        ),
        pytest.param(
            a_spec(model={"uri": "https://10.0.0.1/x"}),
            "SourceNotAllowed",
            "`model.uri`: `10.0.0.1` is inside the cluster or the site",
            id="a source inside the cluster",
        ),
        pytest.param(
            a_spec(model=MODEL | {"adapters": [{"name": "de", "uri": "hf://x"}]}),
            "InvalidSpec",
            "`model.adapters[de].uri`: the source `hf://x` is not complete",
            id="an adapter that cannot be read",
        ),
        pytest.param(
            a_spec(model=MODEL | {"adapters": [{"name": "de", "uri": "pvc://claim/x"}]}),
            "InvalidSpec",
            "`model.adapters[de].uri`: an adapter cannot come from pvc://",
            id="an adapter from a claim",
        ),
        pytest.param(
            a_spec(engine={"args": ["--port=9000"]}),
            "InvalidSpec",
            "`engine.args`: --port cannot be set",
            id="an argument that Stoker sets",
        ),
    ],
)
def test_refuses_with_the_field_and_what_to_change(spec, reason, told):
    answer = read_spec(a_service(spec), config=CONFIG)
    assert isinstance(answer, Refusal)
    assert answer.reason.value == reason
    assert answer.message.startswith(told)


def test_an_adapter_from_a_bucket_is_taken():
    spec = a_spec(model=MODEL | {"adapters": [{"name": "de", "uri": "s3://bucket/de"}]})
    assert isinstance(read_spec(a_service(spec), config=CONFIG), ValidSpec)


def test_sources_inside_the_cluster_are_taken_where_the_operator_allows_them():
    config = replace(CONFIG, allow_cluster_internal_sources=True)
    spec = a_spec(model={"uri": "https://models.demo.svc/llama"})
    assert isinstance(read_spec(a_service(spec), config=config), ValidSpec)


def test_an_object_without_a_spec_is_refused_and_not_an_error():
    service = a_service()
    del service["spec"]
    assert isinstance(read_spec(service, config=CONFIG), Refusal)
