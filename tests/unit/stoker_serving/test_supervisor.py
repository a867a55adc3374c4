"""A whole instance, as a process, with a scripted engine behind the real middleware."""

import contextlib
import json
import os
import signal
import threading
import time
import urllib.error
from pathlib import Path

import pytest
from tests.unit.stoker_serving.conftest import ROOT

from stoker_serving.devices import node_bytes


def test_becomes_ready_after_a_real_token_and_states_what_it_serves(start_instance):
    instance = start_instance(
        script={
            "log": [
                "(Worker pid=7) INFO 11-30 23:25:54 [cpu_model_runner.py:68] Starting to load model /m...",
                "(EngineCore pid=7) INFO 11-30 23:25:56 [kv_cache_utils.py:2327] CPU KV cache size: "
                "2,097,152 tokens, Maximum concurrency for 1,024 tokens per request: 2048.00x",
                "(Worker pid=7) INFO 11-30 23:25:56 [cpu_worker.py:1] Explicitly set (1.0/15.51) GiB for KV "
                "cache on node 0.",
            ],
            "metrics": 'vllm:cache_config_info{block_size="128",engine="0",kv_cache_size_tokens="2097152",'
            'kv_cache_memory_bytes="1073741824",num_gpu_blocks="16384"} 1.0',
        },
        arguments=("--model", "/m", "--served-model-name", "chat", "chat-latest"),
    )
    instance.wait_until_ready()
    _, state = instance.probe("/state")
    assert [stage["name"] for stage in state["stages"]][-2:] == ["WarmingUp", "Serving"]
    assert state["ready"] is True
    assert state["draining"] is False
    assert state["revision"] == "chat-00000000"
    assert state["servedModels"] == ["chat", "chat-latest"]
    assert state["engine"] == {"name": "scripted", "version": "1.2.3"}
    assert state["inFlight"] == 0
    state = instance.wait_until(lambda: _measured(instance), "readings")
    assert state["capacity"] == {
        "kvCacheTokens": 2097152,
        "maxConcurrency": 2048.0,
        "maxModelLen": 4096,
        "blocks": 16384,
        "blockSize": 128,
        "kvBytes": 1_073_741_824,
        "weightsBytes": None,
        "visibleBytes": node_bytes(0),
    }


def _measured(instance):
    state = instance.probe("/state")[1]
    return None if state["measuring"] else state


def test_asks_torch_for_the_memory_of_the_devices_once_it_serves(start_instance, tmp_path):
    (tmp_path / "torch.py").write_text(
        "import pathlib, types\n"
        f"pathlib.Path({str(tmp_path / 'asked')!r}).write_text('')\n"
        "cuda = types.SimpleNamespace(device_count=lambda: 1, "
        "get_device_properties=lambda number: types.SimpleNamespace(total_memory=47_700_000_000))\n"
    )
    instance = start_instance(
        script={"log": ["GPU KV cache size: 1,000 tokens"], "load_s": 1},
        PYTHONPATH=os.pathsep.join([str(ROOT / "serving_image"), str(tmp_path)]),
    )
    instance.wait_for_stage("Starting")
    assert not (tmp_path / "asked").exists()
    instance.wait_until_ready()
    state = instance.wait_until(lambda: _measured(instance), "readings")
    assert state["capacity"]["visibleBytes"] == 47_700_000_000


def test_o6_an_engine_that_is_healthy_but_lists_no_model_is_not_ready(start_instance):
    instance = start_instance(script={"models": []})
    instance.wait_for_stage("WarmingUp")
    reason = instance.wait_until(lambda: instance.probe("/readyz")[1]["waitingFor"], "a reason")
    assert "does not list chat" in reason
    assert instance.probe("/readyz")[0] == 503
    assert instance.probe("/startupz")[0] == 503
    assert instance.probe("/livez")[0] == 200


def test_a_slow_start_is_not_killed(start_instance):
    instance = start_instance(script={"log": ["Loading weights"], "load_s": 3}, STOKER_STUCK_SECONDS="0.1")
    instance.wait_for_stage("Loading")
    alive = set()

    def started():
        alive.add(instance.probe("/livez")[0])
        return instance.probe("/startupz")[0] == 200

    began_s = time.monotonic()
    instance.wait_until(started, "start")
    assert time.monotonic() - began_s > 1
    assert alive == {200}


def test_sigterm_lets_a_running_stream_finish_and_refuses_new_requests(start_instance):
    instance = start_instance(script={"token_every_s": 0.05})
    instance.wait_until_ready()
    with instance.complete(max_tokens=40) as stream:
        first = stream.readline()
        instance.terminate()
        instance.wait_until(lambda: instance.probe("/readyz")[0] == 503, "not ready")
        with instance.complete(max_tokens=1) as accepted:  # proxies have not heard yet
            assert accepted.status == 200
        refusal = instance.wait_until(lambda: _refusal(instance), "refusal")
        rest = stream.read()
    assert (first + rest).count(b"data: ") == 41
    assert rest.endswith(b"data: [DONE]\n\n")
    assert refusal.code == 503
    assert refusal.headers["Retry-After"] == "1"
    assert refusal.headers["Connection"] == "close"
    assert refusal.body["error"]["code"] == "draining"
    assert instance.exit_code() == 0
    assert not instance.termination_log.exists()


def _refusal(instance):
    try:
        with instance.complete(max_tokens=1):
            return None
    except urllib.error.HTTPError as error:
        with error:
            error.body = json.load(error)
        return error


def test_over_its_limit_an_instance_refuses_a_stream_with_429(start_instance):
    instance = start_instance(script={"token_every_s": 0.05}, STOKER_MAX_REQUESTS="1")
    instance.wait_until_ready()
    with instance.complete(max_tokens=100_000) as stream:
        stream.readline()
        assert instance.probe("/state")[1]["inFlight"] == 1
        refusal = _refusal(instance)
    assert refusal.code == 429
    assert int(refusal.headers["Retry-After"]) >= 1
    assert refusal.body["error"]["code"] == "instance_full"
    instance.wait_until(lambda: instance.probe("/state")[1]["inFlight"] == 0, "end of the abandoned stream")


def test_streams_that_outlast_the_drain_are_cut(start_instance):
    instance = start_instance(script={"token_every_s": 0.05}, STOKER_DRAIN_SECONDS="0.5")
    instance.wait_until_ready()
    with instance.complete(max_tokens=100_000) as stream:
        stream.readline()
        instance.terminate()
        assert instance.exit_code() == 0
    assert "1 requests still ran after 0.5 s and are cut" in instance.output.read_text()


def test_sigterm_before_serving_ends_at_once(start_instance):
    instance = start_instance(script={"load_s": 60})
    instance.wait_for_stage("Starting")
    instance.terminate()
    assert instance.exit_code() == 143


def test_g18_an_engine_that_stops_between_tokens_is_stuck_while_it_says_200(start_instance):
    instance = start_instance(
        script={"hang_after_tokens": 5}, STOKER_STUCK_SECONDS="1", STOKER_DRAIN_SECONDS="60"
    )
    instance.wait_until_ready()
    with instance.complete(max_tokens=100) as stream:
        stream.readline()
        instance.wait_until(lambda: instance.probe("/livez")[0] == 503, "a verdict")
        assert instance.probe("/readyz")[0] == 200  # the two answer different questions
        instance.terminate()
        assert instance.exit_code() == 1
    failure = instance.failure()
    assert failure["reason"] == "EngineStuck"
    assert "1 requests running" in failure["message"]


@pytest.mark.parametrize("stream", [True, False])
def test_g18_a_busy_engine_with_a_slow_health_is_alive(start_instance, stream):
    instance = start_instance(script={"token_every_s": 0.1, "health_s": 0.5}, STOKER_STUCK_SECONDS="1")
    instance.wait_until_ready()
    seen = []
    answer = threading.Thread(target=_read_all, args=(instance, stream))
    answer.start()
    while answer.is_alive():
        seen.append(instance.probe("/livez")[0])
        answer.join(0.1)
    assert set(seen) == {200}
    assert len(seen) > 20


def _read_all(instance, stream):
    with instance.complete(max_tokens=35, stream=stream) as answer:
        answer.read()


def test_a_bad_argument_is_named_with_the_nearest_before_the_engine_starts(start_instance, tmp_path):
    known = tmp_path / "engine_arguments.json"
    known.write_text(json.dumps({"engine": "vLLM 0.32.0", "flags": {"--model": [], "--max-model-len": []}}))
    instance = start_instance(
        arguments=("--model", "/m", "--max-modle-len", "100"), STOKER_ENGINE_ARGUMENTS=str(known)
    )
    assert instance.exit_code() == 2
    failure = instance.failure()
    assert failure["reason"] == "BadArguments"
    assert "--max-modle-len" in failure["message"]
    assert "--max-model-len" in failure["fix"]


def test_an_argument_that_only_the_engine_refuses_has_the_engines_own_words(start_instance):
    instance = start_instance(arguments=("--model", "/m", "--no-such-thing", "1"))
    assert instance.exit_code() == 2
    assert instance.failure()["reason"] == "BadArguments"
    assert "unrecognized arguments: --no-such-thing 1" in instance.failure()["message"]


def test_out_of_memory_on_the_accelerator_has_its_class(start_instance):
    words = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    instance = start_instance(script={"log": ["Loading weights", words], "exit": 1})
    assert instance.exit_code() == 137
    assert instance.failure()["reason"] == "OutOfMemory"
    assert words in instance.failure()["message"]


def test_an_engine_that_dies_while_it_serves_says_how(start_instance):
    instance = start_instance()
    instance.wait_until_ready()
    engine = _children(instance.process.pid)[0]
    os.kill(engine, signal.SIGSEGV)
    assert instance.exit_code() == 1
    assert instance.failure()["reason"] == "EngineCrashed"
    assert "SIGSEGV" in instance.failure()["message"]
    assert "Serving" in instance.failure()["message"]


def test_an_engine_that_dies_while_it_drains_says_how(start_instance):
    instance = start_instance(script={"token_every_s": 0.05}, STOKER_DRAIN_SECONDS="60")
    instance.wait_until_ready()
    with instance.complete(max_tokens=100_000) as stream:
        stream.readline()
        instance.terminate()
        instance.wait_for_stage("Draining")
        os.kill(_children(instance.process.pid)[0], signal.SIGKILL)
        assert instance.exit_code() == 1
    assert instance.failure()["reason"] == "EngineCrashed"
    assert "Draining" in instance.failure()["message"]


def test_an_engine_that_is_not_there_is_named(start_instance):
    instance = start_instance(STOKER_ENGINE_COMMAND="/no/such/engine")
    assert instance.exit_code() == 1
    assert "/no/such/engine can't be started" in instance.failure()["message"]


def test_no_argument_is_logged_as_it_may_be_a_key(start_instance):
    instance = start_instance(
        arguments=("--model", "/m", "--served-model-name", "chat", "--api-key", "hunter2")
    )
    instance.wait_until_ready()
    assert "hunter2" not in instance.output.read_text()


def test_a_setting_that_is_no_number_is_named(start_instance):
    instance = start_instance(STOKER_DRAIN_SECONDS="soon")
    assert instance.exit_code() == 2
    assert instance.failure()["reason"] == "BadArguments"
    assert "STOKER_DRAIN_SECONDS='soon'" in instance.failure()["message"]


def test_weights_that_are_not_there_end_it_before_the_engine_starts(start_instance, tmp_path):
    instance = start_instance(
        arguments=("--model", f"{tmp_path}/weights/model"), STOKER_WEIGHTS=f"{tmp_path}/weights"
    )
    assert instance.exit_code() == 1
    assert instance.failure()["reason"] == "WeightsMissing"


def test_nothing_outlives_an_instance(start_instance):
    instance = start_instance()
    instance.wait_until_ready()
    engine = _children(instance.process.pid)[0]
    instance.terminate()
    assert instance.exit_code() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(engine, 0)


def test_an_engine_does_not_outlive_a_killed_supervisor(start_instance):
    instance = start_instance()
    instance.wait_until_ready()
    engine = Path(f"/proc/{_children(instance.process.pid)[0]}/stat")
    instance.process.kill()
    instance.process.wait()
    deadline_s = time.monotonic() + 10
    while _runs(engine) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert not _runs(engine)


def _runs(stat):
    """Whether a process runs; a zombie that nobody has collected yet does not."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _children(pid):
    with contextlib.suppress(FileNotFoundError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []
