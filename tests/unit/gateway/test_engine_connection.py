import asyncio
import gc
import tracemalloc

import pytest
from tests.unit.gateway.gateway import Gateway, chat, post, until
from tests.unit.gateway.scripted_engine import DONE, HEAD, LAST_CHUNK, ScriptedEngine, chunk, token

from stoker.gateway.outcome import Outcome

JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    ("raw", "body", "reused"),
    [
        pytest.param(JSON_HEAD + b"content-length: 2\r\n\r\n{}", b"{}", True, id="with a length"),
        pytest.param(JSON_HEAD + b"content-length: 0\r\n\r\n", b"", True, id="empty"),
        pytest.param(
            JSON_HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
            b"{}",
            True,
            id="in chunks",
        ),
        pytest.param(
            JSON_HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Trailer: y\r\n\r\n",
            b"{}",
            True,
            id="in chunks with a trailer",
        ),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" + JSON_HEAD + b"content-length: 2\r\n\r\n{}",
            b"{}",
            True,
            id="after a notice",
        ),
        pytest.param(
            JSON_HEAD + b"connection: close\r\ncontent-length: 2\r\n\r\n{}",
            b"{}",
            False,
            id="the engine closes",
        ),
        pytest.param(JSON_HEAD + b"content-length: 2\r\n\r\n{}more", b"{}", False, id="bytes behind it"),
        pytest.param(
            (JSON_HEAD + b"content-length: 2\r\n\r\n{}") * 2,
            b"{}",
            False,
            id="an answer to nothing behind it",
        ),
        pytest.param(
            b"HTTP/1.1 299 Odd\r\ncontent-length: 2\r\n\r\n{}", b"{}", True, id="a status without a name"
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 10_000])
async def test_answers_of_every_shape(gateway, engine, raw, body, reused, size):
    def answer(request):
        for start in range(0, len(raw), size):
            request.write(raw[start : start + size])

    engine.script = answer
    client = await gateway.client()
    for _ in range(2):
        response = await client.ask(chat())
        assert (response.complete, response.body) == (True, body)
        assert not {"x", "x-trailer"} & set(response.headers)
    if size > 1:
        assert len(engine.connections) == (1 if reused else 2)


async def test_an_answer_without_a_body_says_nothing_about_its_framing(gateway, engine):
    engine.script = lambda request: request.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    client = await gateway.client()
    for _ in range(2):
        client.send(post(chat()))
        response = await client.response(head_only=True)
        assert response.status == 204
        assert not {"transfer-encoding", "content-length"} & set(response.headers)


async def test_an_answer_that_ends_with_its_connection_is_whole(gateway, engine):
    def answer(request):
        request.write(JSON_HEAD + b"\r\n{}")
        request.close()

    engine.script = answer
    response = await gateway.ask(chat())
    assert (response.complete, response.body) == (True, b"{}")
    assert (await gateway.record()).outcome is Outcome.OK


async def test_what_follows_a_whole_answer_is_nobodys(gateway, engine):
    def answer(request):
        request.answer(b"{}")
        request.answer(b'{"of": "nobody"}')

    engine.script = answer
    client = await gateway.client()
    for _ in range(3):
        client.send(post(chat()))
        assert (await client.response()).body == b"{}"
    assert len(engine.connections) == 3


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", id="another protocol"),
        pytest.param(
            b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", id="another after it"
        ),
        pytest.param(JSON_HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n", id="broken chunks"),
        pytest.param(b"HTTP/1.1 200 OK\r\nbroken\r\n\r\n", id="a broken head"),
    ],
)
async def test_what_is_not_http_is_the_engines_failure(gateway, engine, raw):
    engine.script = lambda request: request.write(raw)
    response = await gateway.ask(chat())
    assert (response.status, response.error["code"]) == (502, "engine_failed")
    assert int(response.headers["retry-after"]) >= 1
    assert (await gateway.record()).outcome is Outcome.UPSTREAM_ERROR


async def test_an_instance_that_cannot_be_reached_is_passed_over(gateway, engine, other_engine):
    await gateway.serve(engine, other_engine)
    other_engine.server.close()
    engine.script = lambda request: request.answer()
    assert [(await gateway.ask(chat())).status for _ in range(10)] == [200] * 10
    assert 0 < sum(r.retries for r in gateway.records) <= 3  # Then it is ejected.


async def test_if_no_instance_can_be_reached_the_client_is_told(gateway, engine):
    engine.server.close()
    response = await gateway.ask(chat())
    assert (response.status, response.error["code"]) == (502, "engine_unreachable")


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
async def test_an_answer_that_says_nothing_about_the_request_is_asked_for_elsewhere(
    gateway, engine, other_engine, status
):
    await gateway.serve(engine, other_engine)
    engine.script = lambda request: request.answer(b'{"error":{}}', status=status)
    other_engine.script = lambda request: request.answer()
    assert [(await gateway.ask(chat())).status for _ in range(6)] == [200] * 6


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        pytest.param(400, b'{"error":{}}', Outcome.BAD_REQUEST, id="the request is wrong"),
        pytest.param(503, b'{"error":{}}', Outcome.SHED, id="unavailable"),
        pytest.param(
            500, b'{"error":{"message":"CUDA out of memory."}}', Outcome.OUT_OF_MEMORY, id="out of memory"
        ),
        pytest.param(500, b'{"error":{}}', Outcome.UPSTREAM_ERROR, id="failed"),
        pytest.param(504, b'{"error":{}}', Outcome.TIMEOUT, id="too slow"),
    ],
)
async def test_the_only_instances_own_refusal_is_relayed(gateway, engine, status, body, outcome):
    engine.script = lambda request: request.answer(body, status=status, headers=[(b"retry-after", b"7")])
    response = await gateway.ask(chat())
    assert (response.status, response.body, response.headers["retry-after"]) == (status, body, "7")
    assert (await gateway.record()).outcome is outcome


async def test_a_request_is_not_sent_everywhere(engine, other_engine):
    async with ScriptedEngine() as third, ScriptedEngine() as fourth, Gateway(retries=2) as gateway:
        engines = [engine, other_engine, third, fourth]
        await gateway.serve(*engines)
        for each in engines:
            each.script = lambda request: request.die()
        response = await gateway.ask(chat())
        assert (response.status, response.error["code"]) == (502, "engine_failed")
        assert sorted(e.received for e in engines) == [0, 1, 1, 1]


async def test_g7_an_engine_that_never_answers_holds_up_only_its_own_requests(engine, other_engine):
    async with Gateway() as gateway:
        await gateway.serve(engine, other_engine, first_byte_timeout_s=0.4)
        engine.script = lambda request: request.begin()  # A head proves nothing.
        other_engine.script = lambda request: request.stream(token("a"))
        responses = await asyncio.gather(*(gateway.ask(chat(stream=True)) for _ in range(8)))
        assert [r.events for r in responses] == [[token("a"), DONE]] * 8
        hung = engine.received
        assert hung >= 3
        assert [r.retries for r in gateway.records].count(1) == hung
        # From now on it is ejected.
        for _ in range(10):
            await gateway.ask(chat(stream=True))
        assert engine.received == hung


async def test_an_engine_that_falls_silent_mid_stream_ends_it_with_an_error_event(engine):
    async with Gateway(silence_s=0.4) as gateway:
        await gateway.serve(engine)

        def fall_silent(request):
            request.begin()
            request.send(token("a"))

        engine.script = fall_silent
        response = await gateway.ask(chat(stream=True))
        assert response.events[0] == token("a")
        assert b'"engine_timeout"' in response.events[1]
        assert not response.complete
        assert (await gateway.record()).outcome is Outcome.TIMEOUT


async def test_g14_a_long_stream_with_long_gaps_is_not_cut(engine):
    """15 minutes with gaps of 60 s, on a clock that the test moves."""
    async with Gateway() as gateway:
        await gateway.serve(engine)
        data_path = gateway.data_path
        data_path.wheel.stop()
        began_s = now_s = data_path.clock()
        data_path.clock = lambda: now_s
        client = await gateway.client()
        client.send(post(chat(stream=True)))
        request = await engine.request()
        request.begin()
        for n in range(15):
            request.send(token(str(n)))
            if n == 0:
                await client.head()
            assert await client.piece() == token(str(n))
            for _ in range(240):
                now_s += 0.25
                data_path.wheel.turn(now_s)
        request.end()
        assert await client.piece() == DONE
        assert await client.piece() == b""
        assert now_s - began_s == pytest.approx(15 * 60)
        assert (await gateway.record()).duration_s == pytest.approx(15 * 60, abs=1)


async def test_g12_a_reader_that_stalls_costs_no_memory(gateway, engine):
    client = await gateway.client()
    client.writer.transport.pause_reading()
    client.send(post(chat(stream=True)))
    request = await engine.request()
    request.begin()
    part = b"".join(chunk(token("x" * 2000)) for _ in range(30))
    gc.collect()
    tracemalloc.start()
    try:
        paused = asyncio.Event()
        request.pause_writing, request.resume_writing = paused.set, paused.clear
        before, _ = tracemalloc.get_traced_memory()
        written = 0
        while not paused.is_set():
            request.write(part)
            written += len(part)
            await asyncio.sleep(0.001)
        engine_side = request.transport.get_write_buffer_size()
        now, _ = tracemalloc.get_traced_memory()
        assert now - before - engine_side < 1_000_000
    finally:
        tracemalloc.stop()
    client.writer.transport.resume_reading()
    request.end()
    response = await client.response()
    assert response.complete
    assert len(response.body) > written * 0.95


async def test_a_client_that_stalls_for_too_long_is_given_up():
    async with ScriptedEngine() as engine, Gateway(stall_s=0.3) as gateway:
        await gateway.serve(engine)
        client = await gateway.client()
        client.writer.transport.pause_reading()
        client.send(post(chat(stream=True)))
        request = await engine.request()
        request.begin()
        for _ in range(4000):
            request.send(token("x" * 2000))
        async with asyncio.timeout(5):
            await request.lost.wait()
        assert (await gateway.record()).outcome is Outcome.CLIENT_GONE


async def test_g4_an_instance_that_leaves_gets_no_new_requests_and_finishes_its_streams(
    gateway, engine, other_engine
):
    client = await gateway.client()
    client.send(post(chat(stream=True)))
    request = await engine.request()
    request.begin()
    request.send(token("a"))
    await client.head()
    await gateway.serve(engine, other_engine, leaving=[engine])
    other_engine.script = lambda request: request.answer()
    assert [(await gateway.ask(chat())).status for _ in range(5)] == [200] * 5
    assert (engine.received, other_engine.received) == (1, 5)
    await gateway.serve(other_engine)
    request.send(token("b"))
    request.end()
    body = b""
    while piece := await client.piece():
        body += piece
    assert body == token("a") + token("b") + DONE


async def test_connections_are_opened_ahead_and_closed_before_the_engine_does():
    async with ScriptedEngine() as engine, Gateway(engine_idle_s=0.3) as gateway:
        changes = await gateway.serve(engine, capacity=3)
        gateway.data_path.take_note(changes)
        await until(lambda: len(engine.connections) == 3)
        engine.script = lambda request: request.answer()
        await gateway.ask(chat())
        assert len(engine.connections) == 3
        await until(lambda: sum(c.lost.is_set() for c in engine.connections) == 1)
        assert [c.requests for c in engine.connections if c.lost.is_set()] == [1]
        gateway.data_path.take_note(await gateway.serve())
        await until(lambda: all(c.lost.is_set() for c in engine.connections))


async def test_what_opens_only_when_the_instance_is_gone_is_closed(gateway, engine):
    gateway.data_path.take_note(await gateway.serve())
    gateway.data_path.take_note(await gateway.serve(engine))
    gateway.data_path.take_note(await gateway.serve())
    await until(lambda: engine.connections)
    await until(lambda: all(c.lost.is_set() for c in engine.connections))


async def test_the_engines_own_count_corrects_the_load(gateway, engine):
    engine.script = lambda request: request.answer(headers=[(b"x-stoker-in-flight", b"6")])
    response = await gateway.ask(chat())
    assert "x-stoker-in-flight" not in response.headers
    (instance,) = gateway.instances
    assert instance.load(gateway.data_path.clock()) * instance.limit == pytest.approx(5, abs=1)


async def test_comments_before_the_first_event_prove_nothing(gateway, engine, other_engine):
    await gateway.serve(engine, other_engine)

    def die_after_a_comment(request):
        request.begin()
        request.send(b": keep-alive\n\n")
        asyncio.get_running_loop().call_later(0.01, request.die)

    engine.script = die_after_a_comment
    other_engine.script = lambda request: request.stream(token("a"))
    for _ in range(4):
        assert (await gateway.ask(chat(stream=True))).events == [token("a"), DONE]
    assert engine.received


async def test_a_stream_that_is_complete_at_once(gateway, engine):
    engine.script = lambda request: request.write(HEAD + chunk(token("a") + DONE) + LAST_CHUNK)
    assert (await gateway.ask(chat(stream=True))).events == [token("a"), DONE]
