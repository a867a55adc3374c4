"""`stoker plan -f` says of a service what the operator will say of it."""

import json
import re
from pathlib import Path

import pytest
import yaml
from tests.unit.cli.plan.shown import CONFIGS
from tests.unit.core.simulator import a_service, a_spec

from stoker.cli.plan.service_file import read_service
from stoker.core.capacity.memory import GIB
from stoker.core.fit_inputs import FitInputs, fit_inputs
from stoker.core.fit_remedy import remedy
from stoker.core.model import ModelFacts

EXAMPLES = Path(__file__).parents[4] / "examples"
MODEL = CONFIGS / "Qwen--Qwen2.5-7B-Instruct.json"
LARGE = CONFIGS / "meta-llama--Meta-Llama-3.1-70B.json"
CPU = {"type": "cpu"}


def args(*words, **fields):
    return a_service(a_spec(engine={"args": list(words)}, **fields))


def env(**values):
    return {"env": [{"name": name, "value": value} for name, value in values.items()]}


def example(path):
    documents = yaml.safe_load_all(path.read_text())
    return next(document for document in documents if document["kind"] == "InferenceService")


SERVICES = [
    *(pytest.param(example(path), id=path.name) for path in sorted(EXAMPLES.glob("*.yaml"))),
    pytest.param(args("--dtype", "float32"), id="another type"),
    pytest.param(args("-q", "fp8"), id="a form of the weights, as an argument"),
    pytest.param(args("--quantization=awq"), id="a form that needs another checkpoint"),
    pytest.param(args("-tp", "2", "--pipeline-parallel-size=2"), id="ranks, as arguments"),
    pytest.param(args("--max_model_len", "8k", "--kv-cache-dtype=fp8"), id="other spellings"),
    pytest.param(args("--cpu-offload-gb", "4"), id="what is not counted"),
    pytest.param(args("--performance-mode", "throughput"), id="a larger batch"),
    pytest.param(a_service(a_spec(accelerator=CPU)), id="a processor"),
    pytest.param(
        a_service(
            a_spec(
                accelerator=CPU,
                engine=env(VLLM_CPU_KVCACHE_SPACE="4"),
                podTemplate={"resources": {"limits": {"memory": "48Gi"}}},
            )
        ),
        id="a processor with a cache and a limit of its own",
    ),
    pytest.param(args(accelerator={"type": "nvidia-h100-80gb-mig-3g.40gb"}), id="a slice"),
]


@pytest.fixture
def both(plan, here):
    """What a plan prints for a service, and the operator's inputs."""

    def read(service, model):
        (here / "service.yaml").write_text(yaml.safe_dump(service))
        facts = ModelFacts(version="", config=json.loads(model.read_text()), weights=None)
        inputs = fit_inputs(read_service(service), facts, service_name=service["metadata"]["name"])
        assert isinstance(inputs, FitInputs), inputs
        return plan("-f", "service.yaml", "--model", model, "-o", "json").json, inputs

    return read


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("model", [MODEL, LARGE], ids=["7B", "70B"])
def test_a_plan_has_the_numbers_of_the_operator(both, service, model):
    planned, inputs = both(service, model)
    estimate = inputs.estimate()
    assert planned["fits"] == estimate.fits
    assert planned["requests"] == estimate.requests
    assert planned["max_context_length"] == estimate.max_context_length
    assert planned["kv"]["tokens"] == estimate.kv_cache_tokens
    assert planned["memory"]["weights"] == round(estimate.budget.weights / GIB, 3)
    assert planned["memory"]["visible"] == round(estimate.budget.visible / GIB, 3)
    assert set(estimate.notes) <= set(planned["notes"])


@pytest.mark.parametrize(
    ("service", "model"),
    [
        pytest.param(args(accelerator={"type": "nvidia-l4"}), LARGE, id="weights that are too large"),
        pytest.param(args("--max-model-len", "999k"), MODEL, id="a context that is too long"),
        pytest.param(
            args("--max-num-seqs", "1024", "--gpu-memory-utilization", "0.36"), MODEL, id="a batch too large"
        ),
        pytest.param(args("--gpu-memory-utilization", "0.36"), MODEL, id="a share that is too small"),
    ],
)
def test_a_plan_advises_what_the_operator_advises(both, service, model):
    planned, inputs = both(service, model)
    estimate = inputs.estimate()
    assert not estimate.fits
    advised = " ".join(planned["notes"])
    for way in remedy(estimate, inputs).split(", or "):
        if change := re.fullmatch(r"[Ss]et `(.*)` to ([^ ]+)(?: at most)?", way):
            assert f"{change[1]} {change[2].replace(',', '')}:" in advised
        else:
            hardware = re.fullmatch(r"[Uu]se (.*), the smallest in the catalogue that holds it", way)
            assert f"{hardware[1]} is the smallest" in advised
