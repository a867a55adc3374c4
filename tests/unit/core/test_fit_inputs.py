import pytest
from tests.unit.core.capacity.real_models import config
from tests.unit.core.simulator import a_spec

from stoker.api.reasons import Reason
from stoker.api.spec import InferenceServiceSpec
from stoker.core.capacity.memory import GIB
from stoker.core.fit_inputs import FitInputs, fit_inputs, most_at_once
from stoker.core.model import ModelFacts

QWEN = ModelFacts(version="a09a354", config=config("Qwen--Qwen2.5-7B-Instruct"), weights=None)
CPU = {"type": "cpu"}


def spec(**fields):
    return InferenceServiceSpec.model_validate(a_spec(**fields))


def inputs(facts=QWEN, **fields):
    found = fit_inputs(spec(**fields), facts, service_name="chat")
    assert isinstance(found, FitInputs), found
    return found


def refused(facts=QWEN, **fields):
    found = fit_inputs(spec(**fields), facts, service_name="chat")
    assert not isinstance(found, FitInputs)
    return found


def args(*words):
    return {"engine": {"args": list(words)}}


def env(**values):
    return {"engine": {"env": [{"name": name, "value": value} for name, value in values.items()]}}


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        pytest.param({}, 256, id="the engine's default for this accelerator"),
        pytest.param(args("--max-num-seqs", "2"), 2, id="as its arguments say"),
        pytest.param(args("-dp", "2", "--max-num-seqs", "8"), 16, id="engines side by side"),
        pytest.param({"accelerator": {"type": "acme-one"}}, None, id="an accelerator that is not known"),
        pytest.param(args("--max-num-seqs", "many"), None, id="arguments that can't be read"),
    ],
)
def test_how_many_run_at_once_is_known_without_a_config(fields, most):
    accelerated = {"accelerator": {"type": "nvidia-l40s"}} | fields
    assert most_at_once(spec(**accelerated), service_name="chat") == most


def test_the_settings_are_those_of_the_containers_arguments():
    found = inputs(
        model={"uri": "hf://a/b", "contextLength": 8192, "kvCacheDtype": "fp8"},
        accelerator={"type": "nvidia-l40s", "count": 2},
        engine={"args": ["--max-num-seqs", "64"]},
    )
    assert found.accelerator.name == "nvidia-l40s"
    assert (found.settings.max_model_len, found.settings.kv_cache_dtype) == (8192, "fp8")
    assert (found.settings.tensor_parallel, found.settings.max_num_seqs) == (2, 64)
    assert found.doubts == ()


@pytest.mark.parametrize(
    ("facts", "fields", "reason", "words"),
    [
        pytest.param(
            ModelFacts(version="", config={}, weights=None),
            {},
            Reason.NOT_ESTIMATED,
            "config",
            id="no config",
        ),
        pytest.param(
            QWEN, {"accelerator": {"type": "l40s"}}, Reason.UNKNOWN_ACCELERATOR, "nvidia-l40s", id="a typo"
        ),
        pytest.param(QWEN, args("-q", "fp9"), Reason.NOT_ESTIMATED, "fp9", id="a form that nobody makes"),
        pytest.param(QWEN, args("--dtype"), Reason.NOT_ESTIMATED, "--dtype", id="an argument without value"),
        pytest.param(
            QWEN, args("--max-num-seqs", "-3"), Reason.NOT_ESTIMATED, "--max-num-seqs", id="a wrong argument"
        ),
        pytest.param(
            QWEN,
            {"accelerator": CPU, "engine": {"image": "own/engine:1"}},
            Reason.NOT_ESTIMATED,
            "VLLM_CPU_KVCACHE_SPACE",
            id="processors with an image of one's own",
        ),
        pytest.param(
            QWEN,
            {"accelerator": CPU, **env(VLLM_CPU_KVCACHE_SPACE="much")},
            Reason.NOT_ESTIMATED,
            "VLLM_CPU_KVCACHE_SPACE",
            id="a cache of a size that is none",
        ),
    ],
)
def test_what_cannot_be_known_is_a_sentence_and_no_refusal_of_the_spec(facts, fields, reason, words):
    found = refused(facts, **fields)
    assert found.reason is reason
    assert words in found.message


@pytest.mark.parametrize(
    ("fields", "gib"),
    [
        pytest.param({}, 1, id="as our image sets it"),
        pytest.param(env(VLLM_CPU_KVCACHE_SPACE="4"), 4, id="as the environment says"),
        pytest.param(args("--kv-cache-memory-bytes", "2G"), 1, id="the environment wins over arguments"),
    ],
)
def test_the_kv_cache_of_processors_is_a_setting(fields, gib):
    assert inputs(accelerator=CPU, **fields).settings.kv_cache_memory_bytes == gib * GIB


def test_the_memory_of_processors_is_the_containers():
    limited = {"podTemplate": {"resources": {"limits": {"memory": "16Gi"}}}}
    found = inputs(accelerator=CPU, **limited)
    assert (found.accelerator.visible_bytes, found.doubts) == (16 * GIB, ())
    assert inputs(accelerator=CPU).doubts == ("The memory of `cpu` is derived, and was not read in a log.",)


@pytest.mark.parametrize(
    ("fields", "doubt"),
    [
        pytest.param(args("--cpu-offload-gb", "8"), "--cpu-offload-gb", id="weights that are elsewhere"),
        pytest.param(args("--hf-overrides", "{}"), "--hf-overrides", id="a model that is changed"),
        pytest.param(args("--config", "/x.yaml"), "--config", id="arguments in a file"),
        pytest.param({"accelerator": {"type": "intel-gaudi3"}}, "intel-gaudi3", id="memory nobody has read"),
    ],
)
def test_what_stands_on_an_assumption_is_a_doubt(fields, doubt):
    (found,) = inputs(**fields).doubts
    assert doubt in found


@pytest.mark.parametrize(
    ("words", "element_bytes"),
    [((), 2), (("--dtype", "float32"), 4), (("--dtype=half",), 2), (("--dtype", "auto"), 2)],
)
def test_the_type_of_an_argument_is_the_models_and_its_weights(words, element_bytes):
    found = inputs(**args(*words))
    assert found.model.bytes_per_element == element_bytes
    assert found.weights.total == inputs().weights.total / 2 * element_bytes


@pytest.mark.parametrize(
    ("fields", "method"),
    [
        pytest.param({}, None, id="as stored"),
        pytest.param({"model": {"uri": "hf://a/b", "quantization": "fp8"}}, "fp8", id="a field"),
        pytest.param(args("-q", "fp8"), "fp8", id="an argument, in short"),
    ],
)
def test_the_form_of_the_weights_is_the_engines(fields, method):
    quantization = inputs(**fields).model.quantization
    assert (quantization and quantization.method) == method


def test_a_form_that_needs_another_checkpoint_is_a_doubt():
    found = inputs(**args("-q", "awq"))
    assert found.weights.total < inputs().weights.total / 2
    assert found.doubts == ("These files are not in awq; it needs a checkpoint of the model in it.",)


def test_the_key_of_a_correction_is_of_all_but_the_context_length():
    same = {"uri": "s3://mirror/qwen", "contextLength": 1024}
    others = [args("--max-num-seqs", "8"), {"accelerator": {"type": "nvidia-l4"}}, {"engine": {"image": "x"}}]
    key = inputs().correction_key
    assert inputs(model=same).correction_key == key
    assert len({key, *(inputs(**other).correction_key for other in others)}) == 4
