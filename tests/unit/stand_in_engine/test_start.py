"""How the engine starts, ends, and fails to start: words and exit codes of vLLM 0.32."""

import re
import signal
import socket

import pytest
from tests.unit.stand_in_engine.harness import model_folder, wait_until


def test_the_log_tells_the_stages_as_vllm_does(start):
    engine = start("--max-model-len", "256").wait_ready()
    text = engine.log.read_text()
    stages = [
        "Resolved architecture: LlamaForCausalLM",
        "Using max model len 256",
        "Starting to load model",
        "Loading weights took 0.0",
        "GPU KV cache size: 65,536 tokens, Maximum concurrency for 256 tokens per request: 256.00x",
        "init engine (profile, create kv cache, warmup model) took 0.02 s",
        "Application startup complete.",
    ]
    places = [text.find(stage) for stage in stages]
    assert -1 not in places
    assert places == sorted(places)
    assert re.search(
        r"^\(EngineCore pid=\d+\) INFO \d\d-\d\d \d\d:\d\d:\d\d \[\S+:\d+\] Starting", text, re.M
    )


def test_the_port_refuses_connections_until_everything_is_loaded(start):
    engine = start(faults={"start_delay_s": 1})
    wait_until(lambda: "Starting to load model" in engine.log.read_text())
    with socket.socket() as client:
        assert client.connect_ex(engine.address) != 0
    engine.wait_ready()
    assert re.search(r"Loading weights took 1\.\d\d seconds", engine.log.read_text())


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        pytest.param(
            ["--max-model-lenn", "5"],
            2,
            "api_server.py: error: unrecognized arguments: --max-model-lenn",
            id="unknown flag",
        ),
        pytest.param(
            ["--max-model-len", "abc"],
            2,
            "argument --max-model-len: invalid human_readable_int_or_auto value: 'abc'",
            id="value of a wrong type",
        ),
        pytest.param(["--kv-cache-dtype", "fp3"], 2, "invalid choice: 'fp3'", id="value that is no choice"),
        pytest.param(
            ["--lora-modules", "poet"], 2, "it must be NAME=PATH or JSON", id="adapter without a path"
        ),
        pytest.param(
            ["--max-model-len", "5000"],
            1,
            "User-specified max_model_len (5000) is greater than the derived max_model_len "
            "(max_position_embeddings=512.0",
            id="longer context than the model has",
        ),
        pytest.param(
            ["--num-gpu-blocks-override", "20"],
            1,
            "To serve at least one request with the model's max seq len (512)",
            id="less KV cache than one request needs",
        ),
        pytest.param(
            ["--gpu-memory-utilization", "0.1"],
            1,
            "No available memory for the cache blocks",
            id="model does not fit",
        ),
        pytest.param(
            ["--enable-lora", "--lora-modules", "poet=/nowhere"],
            1,
            "Loading lora poet failed: No adapter found for /nowhere",
            id="adapter that is not there",
        ),
        pytest.param(["--middleware", "nowhere.Nothing"], 1, "No module named 'nowhere'", id="no middleware"),
    ],
)
def test_a_wrong_argument_ends_it_with_vllms_words(start, arguments, exit_code, words):
    engine = start(*arguments)
    assert engine.wait_ended() == exit_code
    assert words in engine.log.read_text()


@pytest.mark.parametrize(
    ("config", "weights", "words"),
    [
        pytest.param(None, False, "Invalid repository ID or local directory specified", id="no config.json"),
        pytest.param({}, False, "Cannot find any model weights with", id="no weights"),
        pytest.param(
            {"architectures": ["Unheard"]},
            True,
            "Model architectures ['Unheard'] are not supported for now.",
            id="unknown architecture",
        ),
    ],
)
def test_a_wrong_model_folder_ends_it_with_vllms_words(start, tmp_path, config, weights, words):
    folder = tmp_path / "model"
    folder.mkdir()
    if config is not None:
        model_folder(folder, weights=weights, **config)
    engine = start(model=folder)
    assert engine.wait_ended() == 1
    assert words in engine.log.read_text()
    assert "RuntimeError: Engine core initialization failed." in engine.log.read_text()


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        pytest.param({"STAND_IN_FAULTS": '{"hangs": true}'}, "no such fault: hangs", id="unknown fault"),
        pytest.param({"STAND_IN_PROFILE": "slow"}, "take one of fast, qwen3-8b-h100", id="unknown profile"),
    ],
)
def test_a_wrong_environment_says_what_to_change(start, environment, words):
    engine = start(**environment)
    assert engine.wait_ended() == 1
    assert words in engine.log.read_text()


def test_sigterm_ends_it_with_exit_code_0(start):
    engine = start().wait_ready()
    engine.process.send_signal(signal.SIGTERM)
    assert engine.wait_ended() == 0


def test_sigterm_while_loading_ends_it_by_the_signal(start):
    engine = start(faults={"start_delay_s": 60})
    wait_until(lambda: "Starting to load model" in engine.log.read_text())
    engine.process.send_signal(signal.SIGTERM)
    assert engine.wait_ended() == -signal.SIGTERM
