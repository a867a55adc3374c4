import pytest
from tests.unit.core.simulator import a_spec

from stoker.api.instance_spec import RESERVED_FLAGS
from stoker.api.spec import InferenceServiceSpec
from stoker.core.engine_args import engine_args, refuse_args, served_names


def args(service_name="chat", **fields):
    spec = a_spec(**fields)
    spec["model"] = {"uri": "hf://Qwen/Qwen2.5-7B"} | fields.get("model", {})
    return " ".join(engine_args(InferenceServiceSpec.model_validate(spec), service_name=service_name))


BASE = "--model /weights/model --served-model-name chat --host 0.0.0.0 --port 8000"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param(
            {"engine": {"args": ["--max-num-seqs", "64"]}},
            f"{BASE} --max-num-seqs 64",
            id="the user's come last",
        ),
        pytest.param({}, BASE, id="balanced leaves the batch to vLLM"),
        pytest.param(
            {"engine": {"performance": "throughput"}},
            f"{BASE} --performance-mode throughput",
            id="throughput",
        ),
        pytest.param(
            {"engine": {"performance": "interactivity"}},
            f"{BASE} --performance-mode interactivity --max-num-batched-tokens 2048 --max-num-seqs 128",
            id="interactivity holds the batch small",
        ),
        pytest.param(
            {"engine": {"performance": "interactivity", "args": ["--max_num_seqs=16"]}},
            f"{BASE} --performance-mode interactivity --max-num-batched-tokens 2048 --max_num_seqs=16",
            id="the user's spelling with underscores and an equals sign replaces ours",
        ),
        pytest.param(
            {"accelerator": {"type": "nvidia-h100", "count": 4}},
            f"{BASE} --tensor-parallel-size 4",
            id="four GPUs",
        ),
        pytest.param(
            {"accelerator": {"type": "nvidia-h100", "count": 4}, "engine": {"args": ["-tp", "2"]}},
            f"{BASE} -tp 2",
            id="a short form replaces the long one",
        ),
        pytest.param({"accelerator": {"type": "cpu"}}, BASE, id="no tensor parallel on processors"),
        pytest.param(
            {"model": {"contextLength": 8192, "quantization": "fp8", "kvCacheDtype": "fp8_e5m2"}},
            f"{BASE} --max-model-len 8192 --quantization fp8 --kv-cache-dtype fp8_e5m2",
            id="length, weights and cache",
        ),
        pytest.param(
            {"model": {"adapters": [{"name": "b", "uri": "hf://x/b"}, {"name": "a", "uri": "hf://x/a"}]}},
            f"{BASE} --enable-lora --lora-modules a=/weights/adapters/a b=/weights/adapters/b",
            id="adapters in the order of their names",
        ),
        pytest.param(
            {
                "model": {"adapters": [{"name": "a", "uri": "hf://x/a"}]},
                "engine": {"args": ["--no-enable-lora"]},
            },
            f"{BASE} --lora-modules a=/weights/adapters/a --no-enable-lora",
            id="a switch turned off replaces it turned on",
        ),
        pytest.param(
            {"engine": {"args": ["--trust-remote-code"]}},
            f"{BASE} --trust-remote-code",
            id="code is trusted by name",
        ),
    ],
)
def test_become(fields, expected):
    assert args(**fields) == expected


def test_code_from_the_model_is_never_trusted_unless_asked_for():
    assert "trust" not in args()


@pytest.mark.parametrize(
    ("service_name", "model", "served"),
    [
        pytest.param("chat", {}, ["chat"], id="the name of the object"),
        pytest.param("chat", {"name": "Qwen2.5-7B"}, ["Qwen2.5-7B"], id="O18: upper case and dots are kept"),
        pytest.param("a" * 60, {}, ["a" * 60], id="O18: 60 characters are kept"),
        pytest.param("m.1", {"aliases": ["z", "a"]}, ["m.1", "a", "z"], id="aliases follow in order"),
        pytest.param("chat", {"name": "x", "aliases": ["x", "y"]}, ["x", "y"], id="no name twice"),
    ],
)
def test_a_model_is_served_under_its_names(service_name, model, served):
    spec = InferenceServiceSpec.model_validate(a_spec(model={"uri": "hf://a/b"} | model))
    assert served_names(spec, service_name=service_name) == served


@pytest.mark.parametrize(
    "argument", ["--port=1", "--host", "--served_model_name=x", "--model", "--uds", "--no-port"]
)
def test_arguments_that_another_field_says_are_refused(argument):
    refusal = refuse_args(["--max-num-seqs", "8", argument])
    assert refusal.message.startswith(f"`engine.args`: {argument.partition('=')[0]} cannot be set, as ")


def test_any_other_argument_is_taken():
    assert refuse_args(["--max-num-seqs", "8", "-O3", "--model-impl=transformers"]) is None


@pytest.mark.parametrize("flag", RESERVED_FLAGS)
def test_what_the_api_server_refuses_is_refused_here_too(flag):
    assert refuse_args([f"--{flag}=x"]) is not None
