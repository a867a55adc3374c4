"""The logs in `vllm_logs/` are what vLLM 0.32 printed when it was started wrongly, one file for each
way, less its banner, its info lines and the code lines of tracebacks."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_serving.deaths import classify
from stoker_serving.engine_log import EngineLog
from stoker_serving.stages import Stage
from stoker_serving.termination import Reason

LOGS = Path(__file__).with_name("vllm_logs")


@pytest.mark.parametrize(
    ("name", "exit_code", "reason", "words"),
    [
        pytest.param("unknown-flag", 2, Reason.BAD_ARGUMENTS, "unrecognized arguments: --max-modle-len"),
        pytest.param("bad-value", 2, Reason.BAD_ARGUMENTS, "argument --max-model-len: invalid"),
        pytest.param("bad-choice", 2, Reason.BAD_ARGUMENTS, "invalid choice: 'float17' (choose from 'auto'"),
        pytest.param("bad-json", 2, Reason.BAD_ARGUMENTS, "argument --compilation-config/-cc"),
        pytest.param("context-too-long", 1, Reason.BAD_ARGUMENTS, "max_model_len (100000) is greater than"),
        pytest.param("tensor-parallel", 1, Reason.BAD_ARGUMENTS, "attention heads (4) must be divisible"),
        pytest.param("no-quantization-config", 1, Reason.BAD_ARGUMENTS, "config file for awq"),
        pytest.param("unknown-architecture", 1, Reason.MODEL_UNSUPPORTED, "FancyForCausalLM"),
        pytest.param("unknown-model-type", 1, Reason.MODEL_UNSUPPORTED, "model type `fancy`"),
        pytest.param("no-such-folder", 1, Reason.WEIGHTS_MISSING, "'/tmp/nothing'"),
        pytest.param("hub-name-offline", 1, Reason.WEIGHTS_MISSING, "outgoing traffic has been disabled"),
        pytest.param("no-config", 1, Reason.WEIGHTS_MISSING, "m_noconfig"),
        pytest.param("no-weights-file", 1, Reason.WEIGHTS_MISSING, "Cannot find any model weights"),
        pytest.param("no-tokenizer", 1, Reason.WEIGHTS_MISSING, "backend tokenizer"),
        pytest.param("no-adapter", 1, Reason.WEIGHTS_MISSING, "No adapter found for /tmp/nothing"),
        pytest.param("truncated-weights", 1, Reason.WEIGHTS_CORRUPT, "file not fully covered"),
        pytest.param("host-memory", 1, Reason.OUT_OF_MEMORY, "tried to allocate 204800000000 bytes"),
        pytest.param("kv-cache-too-small", 1, Reason.OUT_OF_MEMORY, "estimated maximum model length is"),
        pytest.param("wrong-shape", 1, Reason.ENGINE_CRASHED, "The size of tensor a (256) must match"),
        pytest.param("port-taken", 1, Reason.ENGINE_CRASHED, "Address already in use"),
    ],
)
def test_class_and_words_of_a_failed_start(name, exit_code, reason, words):
    log = EngineLog()
    log.feed((LOGS / f"{name}.txt").read_bytes())
    failure = classify(
        exit_code=exit_code, last_words=log.last_words(), killed_for_memory=False, stage=Stage.STARTING
    )
    assert failure.reason is reason
    assert words in failure.message
    assert "input_value" not in failure.message
    assert failure.fix


@pytest.mark.parametrize(
    "words",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
        "ValueError: Free memory on device cuda:0 (3.1/47.4 GiB) on startup is less than desired GPU memory "
        "utilization (0.92, 43.6 GiB). Decrease GPU memory utilization",
        "ValueError: Available memory on node 0 (3.1/23.0 GiB) on startup is less than desired CPU memory "
        "utilization (0.92, 21.1 GiB).",
        "ValueError: Available memory on node 0 (0.14/1.76 GiB) on kv cache allocation is less than "
        "requested memory for kv (1.0 GiB). Decrease --kv-cache-memory-bytes, VLLM_CPU_KVCACHE_SPACE",
        "MemoryError",
    ],
)
@pytest.mark.parametrize("stage", [Stage.LOADING, Stage.SERVING])
def test_out_of_memory_is_known_by_its_words_at_any_stage(words, stage):
    last_words = [words, "RuntimeError: Engine core initialization failed. See root cause above."]
    failure = classify(exit_code=1, last_words=last_words, killed_for_memory=False, stage=stage)
    assert failure.reason is Reason.OUT_OF_MEMORY
    assert words in failure.message


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("worker-killed", "Worker proc VllmWorker-0 died unexpectedly (exit code: -9)"),
        pytest.param("core-killed", "engine core exited unexpectedly"),
    ],
)
def test_an_engine_that_loses_a_process_while_it_serves_says_which(name, words):
    """vLLM then ends with exit code 0."""
    log = EngineLog()
    log.feed((LOGS / f"{name}.txt").read_bytes())
    failure = classify(exit_code=0, last_words=log.last_words(), killed_for_memory=False, stage=Stage.SERVING)
    assert failure.reason is Reason.ENGINE_CRASHED
    assert words in failure.message


def test_the_kernels_kill_is_out_of_memory_whatever_the_engine_said():
    failure = classify(
        exit_code=1, last_words=["EngineDeadError"], killed_for_memory=True, stage=Stage.SERVING
    )
    assert failure.reason is Reason.OUT_OF_MEMORY
    assert "memory limit" in failure.message


def test_the_words_of_a_clients_bad_request_do_not_explain_a_crash():
    failure = classify(
        exit_code=-11,
        last_words=["  Value error, max_tokens must be at least 1", "api_server.py: error: x"],
        killed_for_memory=False,
        stage=Stage.SERVING,
    )
    assert failure.reason is Reason.ENGINE_CRASHED
    assert "SIGSEGV" in failure.message


def test_an_engine_without_a_word_has_a_sentence_too():
    failure = classify(exit_code=3, last_words=[], killed_for_memory=False, stage=Stage.LOADING)
    assert failure.message == "The engine ended in stage Loading with exit code 3: it said nothing."


@given(
    exit_code=st.integers(0, 255) | st.sampled_from([-6, -9, -11, -15]),
    last_words=st.lists(st.text()),
    killed=st.booleans(),
    stage=st.sampled_from(Stage),
)
def test_every_death_has_a_class_a_sentence_and_a_fix(exit_code, last_words, killed, stage):
    failure = classify(exit_code=exit_code, last_words=last_words, killed_for_memory=killed, stage=stage)
    assert failure.message.startswith("The ")
    assert failure.fix
