import asyncio
import json
import ssl
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gateway.gateway import Gateway, chat, post, until
from tests.unit.gateway.scripted_engine import DONE, ScriptedEngine, chunk, token

from stoker.gateway.outcome import Outcome

CHUNKED = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
BODY = json.dumps(chat()).encode()


def echo(request):
    request.answer(request.body)


def in_pieces(data, size):
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_a_request_may_come_in_pieces(gateway, engine, framing, size):
    engine.script = echo
    chunks = b"".join(chunk(piece) for piece in in_pieces(BODY, 10)) + b"0\r\nX-Trailer: y\r\n\r\n"
    data = post(BODY) if framing == "length" else CHUNKED + chunks
    client = await gateway.client()
    for _ in range(2):
        for piece in in_pieces(data, size):
            client.send(piece)
            await asyncio.sleep(0)
        response = await client.response()
        assert (response.status, response.body) == (200, BODY)


async def test_early_requests_are_answered_one_after_the_other(gateway, engine):
    client = await gateway.client()
    client.send(b"".join(post(chat(user=f"{n}"), headers=[f"X-Request-Id: {n}"]) for n in range(50)))
    for n in range(50):
        request = await engine.request()
        assert engine.arrived.empty()
        request.answer(str(n).encode())
        response = await client.response()
        assert (response.headers["x-request-id"], response.body) == (str(n), str(n).encode())
    assert len(engine.connections) == 1


async def test_thousands_of_early_requests_neither_nest_nor_fill_the_memory(gateway):
    client = await gateway.client()
    client.send(b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n" * 3_000)
    for _ in range(3_000):
        assert (await client.response()).status == 200


async def test_what_follows_a_chunked_body_closes_the_connection_instead_of_being_guessed_at(gateway, engine):
    engine.script = echo
    client = await gateway.client()
    client.send(CHUNKED + chunk(BODY) + b"0\r\n\r\n" + post(chat()))
    response = await client.response()
    assert (response.status, response.headers["connection"]) == (200, "close")
    assert response.body == BODY
    assert await client.is_closed()
    assert engine.received == 1


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b"0x2\r\nhi\r\n0\r\n\r\n", id="a size in C's way"),
        pytest.param(b"+2\r\nhi\r\n0\r\n\r\n", id="a size with a plus"),
        pytest.param(b"-2\r\nhi\r\n0\r\n\r\n", id="a size with a minus"),
        pytest.param(b" 2\r\nhi\r\n0\r\n\r\n", id="a size behind a space"),
        pytest.param(b"2 \r\nhi\r\n0\r\n\r\n", id="a size before a space"),
        pytest.param(b"\r\nhi\r\n0\r\n\r\n", id="no size"),
        pytest.param(b"fffffffffffffffff\r\nhi", id="a size beyond 64 bits"),
        pytest.param(b"2\nhi\r\n0\r\n\r\n", id="a bare line feed behind the size"),
        pytest.param(b"2\r\nhi\n0\r\n\r\n", id="a bare line feed behind the data"),
        pytest.param(b"2\r\nhi0\r\n\r\n", id="nothing behind the data"),
        pytest.param(b"2\r\nhixx\r\n0\r\n\r\n", id="more data than the size says"),
        pytest.param(b"2;a\nhi\r\n0\r\n\r\n", id="a bare line feed in an extension"),
        pytest.param(b"2\r\nhi\r\n0\r\nContent-Length: 5\r\n\r\n", id="a Content-Length in the trailer"),
    ],
)
async def test_malformed_chunks_are_refused_and_the_connection_closes(gateway, engine, bad):
    client = await gateway.client()
    client.send(CHUNKED + bad + post(chat()))
    response = await client.response()
    assert (response.status, response.error["code"]) == (400, "invalid_request")
    assert response.headers["connection"] == "close"
    assert await client.is_closed()
    assert engine.received == 0


async def test_malformed_heads_are_refused_and_what_follows_is_no_request(gateway, engine):
    client = await gateway.client()
    client.send(
        b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n" + post(chat())
    )
    response = await client.response()
    assert (response.status, response.error["code"]) == (400, "invalid_request")
    assert await client.is_closed()
    assert engine.received == 0


async def test_headers_over_the_limit_are_refused(gateway):
    client = await gateway.client()
    client.send(b"GET / HTTP/1.1\r\nX: " + b"y" * 40_000)
    assert (await client.response()).status == 431


async def test_empty_lines_before_a_request_mean_nothing(gateway, engine):
    engine.script = echo
    client = await gateway.client()
    client.send(b"\r\n\r\n" + post(chat()))
    assert (await client.response()).status == 200


async def test_a_flood_of_empty_lines_does_not_hold_up_the_others(gateway, engine):
    engine.script = echo
    client = await gateway.client()
    began_s = time.process_time()
    client.send(b"\r\n" * 2_000_000 + post(chat()))
    assert (await client.response()).status == 200
    assert time.process_time() - began_s < 1


async def test_a_body_in_the_smallest_chunks_takes_no_more_memory_than_it_has_bytes(gateway, engine):
    engine.script = lambda request: request.answer(b"%d" % len(request.body))
    body = json.dumps(chat(user="x" * 200_000)).encode()
    body += b" " * (len(body) % 2)
    data = CHUNKED + b"".join(chunk(piece) for piece in in_pieces(body, 2)) + b"0\r\n\r\n"
    client = await gateway.client()
    tracemalloc.start()
    try:
        client.send(data)
        assert (await client.response()).body == b"%d" % len(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


async def test_a_connection_that_was_paused_at_the_end_of_its_answer_still_times_out(engine):
    async with Gateway(keep_alive_s=0.3) as gateway:
        await gateway.serve(engine)
        engine.script = echo
        client = await gateway.client()
        assert (await client.ask(chat())).complete
        (connection,) = gateway.data_path.clients
        # As the loop does where the last piece of the answer had to wait for the client.
        connection.pause_writing()
        connection.resume_writing()
        assert await client.is_closed()


async def test_a_client_that_waits_for_100_gets_it_only_if_its_request_is_wanted(gateway, engine):
    engine.script = echo
    client = await gateway.client()
    wanted = post(BODY, headers=["Expect: 100-continue"])
    head = wanted[: -len(BODY)]
    client.send(head)
    assert (await client.head()).status == 100
    client.send(BODY)
    assert (await client.response()).status == 200
    client.send(head.replace(b"chat/completions", b"load_lora_adapter"))
    response = await client.response()
    assert (response.status, response.headers["connection"]) == (404, "close")


async def test_an_http_1_0_client_gets_a_stream_without_chunks_that_ends_with_the_connection(gateway, engine):
    engine.script = lambda request: request.stream(token("a"), token("b"))
    client = await gateway.client()
    client.send(post(chat(stream=True), version="1.0", headers=["Connection: keep-alive"]))
    response = await client.response()
    assert "transfer-encoding" not in response.headers
    assert response.headers["connection"] == "close"
    assert response.events == [token("a"), token("b"), DONE]


async def test_a_client_that_closes_after_its_answer_may(gateway, engine):
    engine.script = echo
    client = await gateway.client()
    client.send(post(chat(), headers=["Connection: close"]))
    response = await client.response()
    assert (response.status, response.headers["connection"]) == (200, "close")
    assert await client.is_closed()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_the_models_are_listed(gateway, method):
    client = await gateway.client()
    client.send(f"{method} /v1/models HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    response = await client.response(head_only=method == "HEAD")
    assert response.status == 200
    if method == "GET":
        assert [(m["id"], m["owned_by"]) for m in response.json["data"]] == [("chat", "demo")]
    client.send(post(chat(model="none")))
    assert (await client.response()).status == 404


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        pytest.param(post(b"{"), 400, "invalid_json", id="not JSON"),
        pytest.param(post(b"[]"), 400, "invalid_request", id="not an object"),
        pytest.param(post({}), 400, "invalid_request", id="no model"),
        pytest.param(post(chat(model="none")), 404, "model_not_found", id="an unknown model"),
        pytest.param(
            post(chat(), content_type="text/plain"), 415, "unsupported_media_type", id="not said to be JSON"
        ),
        pytest.param(
            post(chat(), headers=["Content-Encoding: gzip"]), 415, "unsupported_media_type", id="compressed"
        ),
        pytest.param(post(chat(), path="/v2/nothing"), 404, "not_found", id="an unknown path"),
        pytest.param(
            post(chat(), path="/v1/load_lora_adapter"), 404, "not_found", id="what is not for clients"
        ),
        pytest.param(
            post(chat(), headers=["x-stoker-priority: high"]),
            400,
            "invalid_request",
            id="a priority in words",
        ),
        pytest.param(
            b"GET /v1/embeddings HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method_not_allowed", id="a wrong method"
        ),
        pytest.param(
            post(b"x" * 100, headers=["Content-Length: 2000001"], framed=False),
            413,
            "body_too_large",
            id="too large",
        ),
    ],
)
async def test_a_bad_request_is_told_what_is_wrong_in_openais_shape(engine, data, status, code):
    async with Gateway(body_bytes=2_000_000) as gateway:
        await gateway.serve(engine)
        client = await gateway.client()
        client.send(data)
        response = await client.response()
        assert (response.status, response.error["code"]) == (status, code)
        assert set(response.error) == {"message", "type", "param", "code"}
        assert (await gateway.record()).outcome is Outcome.BAD_REQUEST
    assert engine.received == 0


async def test_after_a_refusal_the_connection_goes_on_if_the_body_was_there(gateway, engine):
    engine.script = echo
    client = await gateway.client()
    assert (await client.ask(chat(), path="/nothing")).status == 404
    assert (await client.ask(chat(model="none"))).status == 404
    assert (await client.ask(chat())).status == 200


async def test_g16_an_image_of_20_mb_is_relayed_and_over_the_limit_refused_before_it_is_read():
    async with ScriptedEngine() as engine, Gateway(body_bytes=30_000_000) as gateway:
        await gateway.serve(engine)
        engine.script = lambda request: request.answer(b"%d" % len(request.body))
        body = json.dumps(chat(image="A" * 20_000_000)).encode()
        assert (await gateway.ask(body)).body == b"%d" % len(body)
        client = await gateway.client()
        client.send(post(body * 2))
        response = await client.response()
        assert (response.status, response.error["code"]) == (413, "body_too_large")
        assert "30000000 bytes" in response.error["message"]
        assert await client.is_closed()
        client = await gateway.client()
        client.send(CHUNKED + chunk(body * 2) + b"0\r\n\r\n")
        assert (await client.response()).status == 413
        assert engine.received == 1


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        pytest.param(b"", False, id="nothing at all"),
        pytest.param(b"POST / HT", True, id="half a head"),
        pytest.param(post(b"x" * 9)[:-1], True, id="half a body"),
        pytest.param(CHUNKED + b"5\r\nab", True, id="half a chunk"),
    ],
)
async def test_a_slow_client_is_cut_off(engine, sent, answered):
    async with Gateway(head_s=0.3, body_silence_s=0.3, keep_alive_s=0.3) as gateway:
        await gateway.serve(engine)
        client = await gateway.client()
        client.send(sent)
        if answered:
            assert (await client.response()).error["code"] == "request_timeout"
        assert await client.is_closed()


async def test_a_client_that_reads_slowly_gets_the_end_of_its_last_answer_too(gateway, engine):
    client = await gateway.client()
    client.writer.transport.pause_reading()
    client.send(post(chat(stream=True), headers=["Connection: close"]))
    request = await engine.request()
    request.begin()
    await until(lambda: gateway.data_path.clients)
    (connection,) = gateway.data_path.clients
    while not connection._transport.get_write_buffer_size():
        request.send(*[token("x" * 2000)] * 8)
        await asyncio.sleep(0.001)
    request.end()
    assert (await gateway.record()).outcome is Outcome.OK
    gateway.data_path.wheel.turn(gateway.data_path.clock() + 60)
    client.writer.transport.resume_reading()
    assert (await client.response()).complete


async def test_a_client_that_sends_no_more_is_taken_to_have_left(gateway, engine):
    client = await gateway.client()
    client.send(post(chat(stream=True)))
    request = await engine.request()
    client.writer.write_eof()
    await request.lost.wait()
    assert (await gateway.record()).outcome is Outcome.CLIENT_GONE


async def test_tls(server_tls, authority, engine):
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    engine.script = echo
    async with Gateway(tls=server_tls, client_tls=trust) as gateway:
        await gateway.serve(engine)
        client = await gateway.client()
        for _ in range(2):
            assert (await client.ask(chat())).body == BODY
        client.send(post(b"x", headers=["Content-Length: 999999999"], framed=False))
        assert (await client.response()).status == 413
        assert await client.is_closed()


async def test_draining_lets_streams_finish_and_closes_what_is_idle(gateway, engine):
    idle, busy = await gateway.client(), await gateway.client()
    busy.send(post(chat(stream=True)))
    request = await engine.request()
    draining = asyncio.ensure_future(gateway.listener.drain(10))
    assert await idle.is_closed()
    request.stream(token("a"))
    response = await busy.response()
    assert (response.complete, response.events) == (True, [token("a"), DONE])
    assert await busy.is_closed()
    await draining


async def test_draining_ends_at_its_bound(gateway, engine):
    client = await gateway.client()
    client.send(post(chat(stream=True)))
    request = await engine.request()
    await gateway.listener.drain(0.05)
    await request.lost.wait()
    assert (await gateway.record()).outcome is Outcome.CLIENT_GONE


FRAGMENTS = st.sampled_from(
    [
        post(chat()),
        post(chat(), headers=["Transfer-Encoding: chunked"]),
        post(b"", framed=False),
        CHUNKED,
        chunk(BODY),
        b"0\r\n\r\n",
        b"0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n",
        b"Content-Length: 4\r\n",
        b"\r\n",
        b"\n",
        b"\x00",
    ]
)


@given(st.lists(st.lists(FRAGMENTS | st.binary(max_size=20), max_size=5), min_size=1, max_size=6))
@settings(max_examples=25)
def test_any_bytes_give_at_most_one_engine_request_for_each_body_and_never_an_error_of_ours(connections):
    async def run():
        async with ScriptedEngine() as engine, Gateway(head_s=60) as gateway:
            await gateway.serve(engine)
            engine.script = echo
            for pieces in connections:
                client = await gateway.client()
                for piece in pieces:
                    client.send(piece)
                    await asyncio.sleep(0)
                client.writer.write_eof()
                await client.is_closed()
            raw = b"".join(piece for pieces in connections for piece in pieces)
            assert engine.received <= raw.count(BODY)
            await until(lambda: not gateway.data_path.clients)

    asyncio.run(run())
