"""How the engine starts, ends, and fails to start: words and exit codes of vLLM 0.32."""

import re
import signal
import socket

import pytest
from tests.unit.stand_in_engine.harness import wait_until


def test_the_log_tells_the_stages_as_vllm_does(start):
    engine = start("--max-model-len", "256").wait_ready()
    text = engine.log.read_text()
    stages = [
        "Resolved architecture: LlamaForCausalLM",
        "Using max model len 256",
        "Starting to load model",
        "Loading weights took 0.0",
        "Model loading took 0.84 GiB memory and 0.0",
        "Available KV cache memory: 1.0 GiB",
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
    ("arguments", "environment", "exit_code", "words"),
    [
        pytest.param(
            ["--max-model-lenn", "5"],
            {},
            2,
            "api_server.py: error: unrecognized arguments: --max-model-lenn",
            id="unknown flag",
        ),
        pytest.param(
            ["--max-model-len", "5000"],
            {},
            1,
            "RuntimeError: Engine core initialization failed. See root cause above.",
            id="a context that the model does not have",
        ),
        pytest.param(
            ["--middleware", "nowhere.Nothing"], {}, 1, "No module named 'nowhere'", id="no such middleware"
        ),
        pytest.param(
            [], {"STAND_IN_FAULTS": '{"hangs": true}'}, 1, "no such fault: hangs", id="unknown fault"
        ),
        pytest.param(
            [], {"STAND_IN_PROFILE": "slow"}, 1, "take one of fast, qwen3-8b-h100", id="unknown profile"
        ),
    ],
)
def test_a_failed_start_has_vllms_exit_code_and_says_why(start, arguments, environment, exit_code, words):
    engine = start(*arguments, **environment)
    assert engine.wait_ended() == exit_code
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
