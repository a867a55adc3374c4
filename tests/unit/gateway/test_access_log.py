import asyncio
import json
import os
import threading

import pytest
from tests.unit.gateway.gateway import chat, until
from tests.unit.gateway.records import record, refused

from stoker.gateway.access_log import AccessLog, line_of
from stoker.gateway.errors import Code
from stoker.gateway.outcome import Outcome
from stoker.gateway.traces import Span

TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_a_line_says_what_the_record_says():
    line = json.loads(line_of(record(queue_s=0.0204081632), now_s=1_700_000_001.3))
    assert line == {
        "time": "2023-11-14T22:13:20.000Z",
        "request_id": "r-1",
        "trace_id": "",
        "namespace": "demo",
        "service": "chat",
        "workload": "batch",
        "model": "chat",
        "adapter": "",
        "model_version": "v7",
        "revision": "r1",
        "instance": "chat-r1-a",
        "path": "/v1/chat/completions",
        "streaming": True,
        "status": 200,
        "outcome": "ok",
        "code": "",
        "prompt_tokens": 100,
        "cached_tokens": 60,
        "completion_tokens": 21,
        "estimated": False,
        "queue_s": 0.020408,
        "first_byte_s": 0.3,
        "inter_token_s": 0.1,
        "duration_s": 1.3,
        "retries": 0,
        "request_bytes": 512,
        "response_bytes": 2048,
    }


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}, id="the client's"),
        pytest.param(
            {"span": Span(trace_id=TRACE, span_id="1" * 16, parent_id="", sampled=False)},
            id="this gateway's own",
        ),
    ],
)
def test_a_line_names_the_trace(changes):
    assert json.loads(line_of(record(**changes), now_s=0.0))["trace_id"] == TRACE


def test_a_client_can_neither_make_two_lines_nor_a_long_one():
    line = line_of(record(model="a\n{}" * 10_000, path="/v1/" + "x" * 30_000, workload='"\r\n'), now_s=0.0)
    assert line.count(b"\n") == 1
    assert len(line) < 1500


async def test_lines_come_in_order_and_all_are_there_after_close(tmp_path):
    log = AccessLog(str(tmp_path / "access.log"))
    for n in range(1000):
        log.add(record(request_id=f"r-{n}"))
    log.add(refused(Code.QUEUE_FULL, Outcome.SHED, request_id="last"))
    log.close(5)
    lines = [json.loads(line) for line in (tmp_path / "access.log").read_text().splitlines()]
    assert [line["request_id"] for line in lines] == [*(f"r-{n}" for n in range(1000)), "last"]
    assert lines[-1]["first_byte_s"] is None
    assert log.lost == 0


async def test_lines_are_written_soon_without_a_close(tmp_path):
    path = tmp_path / "access.log"
    path.write_text("before\n")
    log = AccessLog(str(path))
    log.add(record())
    await until(lambda: path.read_text().count("\n") == 2)
    assert path.read_text().startswith("before\n")
    log.close(5)


async def test_a_reader_that_stops_reading_costs_lines_not_time(tmp_path):
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    log = AccessLog(pipe, most_waiting_bytes=500_000)
    line = len(line_of(record(), now_s=0.0))
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    for n in range(4000):
        log.add(record(request_id=f"r-{n}"))
        if n % 100 == 0:
            await asyncio.sleep(0)
    assert loop.time() - start_s < 5
    assert log.lost > 4000 - 2 * 500_000 // line
    # Once the reader goes on, so does the log.
    lost = log.lost
    received = bytearray()
    drained = threading.Thread(target=_read_all, args=(reader, received))
    drained.start()
    await until(lambda: log.waiting_bytes == 0)
    log.add(record(request_id="later"))
    log.close(5)
    drained.join(5)
    lines = [json.loads(piece) for piece in received.splitlines()]
    assert lines[-1]["request_id"] == "later"
    assert len(lines) == 4001 - lost
    assert log.lost == lost


async def test_lines_that_cannot_be_written_are_lost_and_counted():
    log = AccessLog("/dev/full")
    for _ in range(5):
        log.add(record())
    log.close(5)
    assert log.lost == 5


async def test_a_folder_that_is_not_there_is_an_error_at_once(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        AccessLog(str(tmp_path / "missing" / "access.log"))


async def test_no_prompt_answer_or_key_is_written(gateway, engine):
    secret = "correct horse battery staple"
    engine.script = lambda request: request.answer(b'{"content": "Hello"}')
    await gateway.ask(
        chat(messages=[{"role": "user", "content": secret}]),
        path=f"/v1/chat/completions?key={secret.replace(' ', '+')}",
        headers=[f"Authorization: Bearer {secret}", f"X-Api-Key: {secret}"],
    )
    line = line_of(await gateway.record(), now_s=0.0)
    assert b"horse" not in line
    assert b"Hello" not in line


def _read_all(reader, received):
    os.set_blocking(reader, True)
    while piece := os.read(reader, 65536):
        received += piece
    os.close(reader)
