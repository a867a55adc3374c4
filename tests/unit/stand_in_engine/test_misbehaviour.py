"""Each fault, as clients and probes see it, over real sockets."""

import asyncio
import json
import signal
import time

import pytest
from tests.unit.stand_in_engine.harness import Stream, events, wait_until


def test_faults_can_be_read_and_ended(engine):
    engine.set_faults(hang=True)
    assert json.loads(engine.get("/faults").text)["hang"] is True
    engine.request("DELETE", "/faults")
    assert json.loads(engine.get("/faults").text)["hang"] is False


def test_a_wrong_document_is_refused_and_changes_nothing(engine):
    answer = engine.request("POST", "/faults", {"hang": "yes"})
    assert (answer.status, json.loads(answer.text)["detail"]) == (
        400,
        'hang cannot be "yes": it takes true or false',
    )
    assert engine.chat().status == 200


async def test_hang_takes_requests_and_never_answers(engine):
    engine.set_faults(hang=True)
    stream = await Stream.open(engine)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(stream.reader.read(1), 0.3)
    assert engine.get("/health").status == 200
    assert engine.get("/v1/models").status == 200
    await stream.leave()


async def test_stall_stops_between_tokens_while_health_says_200(engine):
    engine.set_faults(stall_after_tokens=3)
    stream = await Stream.open(engine, max_tokens=8)
    await stream.head()
    for _ in range(1 + 3):
        await stream.piece()
    with pytest.raises(asyncio.TimeoutError):
        await stream.piece(patience_s=0.3)
    assert engine.get("/health").status == 200
    assert engine.metric("num_requests_running") == 1
    await stream.leave()


async def test_a_stall_that_ends_goes_on_where_it_was(engine):
    engine.set_faults(stall_after_tokens=3)
    stream = await Stream.open(engine, max_tokens=8)
    await stream.head()
    for _ in range(1 + 3):
        await stream.piece()
    engine.request("DELETE", "/faults")
    assert len(await stream.pieces()) == 5 + 1


@pytest.mark.parametrize(
    ("crash", "exit_code", "words"),
    [
        pytest.param("exit", 1, "EngineCore encountered a fatal error.", id="exit"),
        pytest.param(
            "cuda_out_of_memory", 1, "torch.OutOfMemoryError: CUDA out of memory.", id="CUDA memory"
        ),
        pytest.param("kill", -signal.SIGKILL, "Application startup complete.", id="kill"),
    ],
)
async def test_a_crash_after_some_tokens_cuts_the_stream(start, crash, exit_code, words):
    engine = await asyncio.to_thread(start().wait_ready)
    engine.set_faults(crash_after_tokens=5, crash=crash)
    stream = await Stream.open(engine, max_tokens=100)
    await stream.head()
    with pytest.raises((OSError, asyncio.IncompleteReadError, ValueError)):
        await stream.pieces()
    assert await asyncio.to_thread(engine.wait_ended) == exit_code
    assert words in engine.log.read_text()


async def test_a_dead_engine_ends_streams_with_an_error_and_then_the_server(start):
    engine = await asyncio.to_thread(start().wait_ready)
    engine.set_faults(crash_after_tokens=5, crash="engine_dead")
    stream = await Stream.open(engine, max_tokens=100)
    await stream.head()
    *_, error, end = await stream.pieces()
    assert error == (
        'data: {"error": {"message": "EngineCore encountered an issue. See stack trace (above) for the root '
        'cause.", "type": "InternalServerError", "param": null, "code": 500}}\n\n'
    ), "as recorded from vLLM 0.32 when its engine process was killed"
    assert end == "data: [DONE]\n\n"
    assert engine.get("/health").status == 503
    assert engine.chat().status == 500
    assert await asyncio.to_thread(engine.wait_ended) == 0


def test_a_crash_after_no_token_comes_at_once(start):
    engine = start().wait_ready()
    engine.set_faults(crash_after_tokens=0)
    assert engine.wait_ended() == 1


@pytest.mark.parametrize(
    ("crash", "exit_code", "words"),
    [
        pytest.param("exit", 1, "EngineCore encountered a fatal error.", id="exit"),
        pytest.param("cuda_out_of_memory", 1, "torch.OutOfMemoryError", id="CUDA memory"),
        pytest.param("kill", -signal.SIGKILL, "Starting to load model", id="kill"),
    ],
)
def test_it_can_crash_while_it_starts(start, crash, exit_code, words):
    engine = start(faults={"start_crash": crash})
    assert engine.wait_ended() == exit_code
    assert words in engine.log.read_text()


async def test_a_refused_stream_has_a_head_and_an_error_event(engine):
    engine.set_faults(refuse=True)
    stream = await Stream.open(engine)
    assert b"200 OK" in await stream.head()
    assert await stream.pieces() == [
        'data: {"error": {"message": "The engine is currently busy and cannot accept new requests. Please '
        'try again later or on a different instance.", "type": "Service Unavailable", "param": null, '
        '"code": 503}}\n\n',
        "data: [DONE]\n\n",
    ], "as recorded from vLLM 0.32 with --max-num-queued-reqs 2 and 12 requests at once"
    assert engine.chat().status == 503


def test_no_models_while_health_says_200(engine):
    engine.set_faults(no_models=True)
    assert json.loads(engine.get("/v1/models").text)["data"] == []
    assert engine.get("/health").status == 200
    assert engine.chat().status == 404


def test_health_can_be_slow(engine):
    engine.set_faults(health_delay_s=0.3)
    asked_s = time.monotonic()
    assert engine.get("/health").status == 200
    assert time.monotonic() - asked_s >= 0.3


def test_a_share_of_connections_is_reset(engine):
    engine.set_faults(reset_share=0.5)
    outcomes = []
    for _ in range(4):
        try:
            outcomes.append(engine.chat().status)
        except ConnectionResetError:
            outcomes.append("reset")
    assert outcomes == [200, "reset", 200, "reset"]
    assert "ERROR" not in engine.log.read_text()


def test_a_share_of_requests_fails(engine):
    engine.set_faults(error_share=0.25, error_status=502)
    assert [engine.chat().status for _ in range(8)] == [200, 200, 200, 502, 200, 200, 200, 502]


def test_content_can_be_wrong(engine):
    engine.set_faults(wrong_content=True)
    assert json.loads(engine.chat(max_tokens=5).text)["choices"][0]["message"]["content"] == "!!!!!"
    documents, _ = events(engine.chat(max_tokens=2, stream=True).text)
    assert "".join(each["choices"][0]["delta"]["content"] for each in documents) == "!!"


def test_steps_can_be_slow(engine):
    def seconds():
        asked_s = time.monotonic()
        engine.chat(max_tokens=20, ignore_eos=True)
        return time.monotonic() - asked_s

    engine.set_faults(slow_factor=10)
    assert seconds() >= 20 * 10 * 0.002


def test_taking_all_memory_is_refused_without_a_limit(start, tmp_path):
    engine = start().wait_ready()
    engine.set_faults(crash_after_tokens=0, crash="memory")
    wait_until(lambda: "needs a container with a memory limit" in engine.log.read_text())
    assert engine.get("/health").status == 200
