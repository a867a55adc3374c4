import pytest
from tests.unit.cli.plan.test_options import typed

from stoker.cli.plan.manifest import new_service, with_options


@pytest.mark.parametrize(
    ("model", "name", "uri"),
    [
        pytest.param(
            "hf://Qwen/Qwen2.5-7B-Instruct",
            "qwen2-5-7b-instruct",
            "hf://Qwen/Qwen2.5-7B-Instruct",
            id="a model of a hub",
        ),
        pytest.param("s3://bucket/models/m/", "m", "s3://bucket/models/m/", id="a folder of a bucket"),
        pytest.param("./my model", "my-model", "pvc://models/my-model", id="a folder of this machine"),
        pytest.param("x/tiny/config.json", "tiny", "pvc://models/tiny", id="a config of this machine"),
        pytest.param("..", "model", "pvc://models/model", id="nothing that a name could be made of"),
    ],
)
def test_a_new_service_is_named_after_its_model(model, name, uri):
    service = new_service(model)
    assert service["metadata"]["name"] == name
    assert service["spec"]["model"]["uri"] == uri


def test_what_was_typed_takes_the_place_of_what_the_service_says():
    service = {
        "spec": {
            "model": {"uri": "hf://a/b", "contextLength": 100, "kvCacheDtype": "fp8"},
            "engine": {
                "args": ["--max-model-len", "200", "--seed=1", "--max_num_seqs=8", "--kv-cache-dtype", "x"]
            },
            "accelerator": {"type": "nvidia-l4"},
        }
    }
    options = typed(model="hf://c/d", accelerator="nvidia-h200", count=2, context=300, max_num_seqs=16)
    assert with_options(service, options)["spec"] == {
        "model": {"uri": "hf://c/d", "contextLength": 300, "kvCacheDtype": "fp8"},
        "engine": {"args": ["--seed=1", "--kv-cache-dtype", "x", "--max-num-seqs", "16"]},
        "accelerator": {"type": "nvidia-h200", "count": 2},
    }
    assert service["spec"]["accelerator"] == {"type": "nvidia-l4"}, "the service itself is left alone"


def test_a_model_of_this_machine_does_not_become_a_uri():
    service = {"spec": {"model": {"uri": "hf://a/b"}, "accelerator": {"type": "nvidia-l4"}}}
    assert with_options(service, typed(model="./b", accelerator=None)) == service
