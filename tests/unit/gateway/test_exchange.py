import asyncio
import gc
import json
import tracemalloc
from dataclasses import asdict

import pytest
from tests.unit.gateway.gateway import Gateway, chat, post, until
from tests.unit.gateway.scripted_engine import DONE, HEAD, LAST_CHUNK, chunk, error, token, usage

from stoker.gateway.outcome import Outcome


async def test_an_answer_goes_to_the_client_as_it_is_with_who_gave_it(gateway, engine):
    engine.script = lambda request: request.answer(
        b'{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}', headers=[(b"X-Own", b"yes")]
    )
    response = await gateway.ask(chat())
    assert response.status == 200
    assert response.body == b'{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}'
    assert response.headers["x-own"] == "yes"
    assert response.headers["x-stoker-instance"] == f"chat-{engine.port}"
    assert response.headers["x-stoker-model-version"] == "v7"
    record = await gateway.record()
    assert response.headers["x-request-id"] == record.request_id
    assert (record.outcome, record.status, record.service, record.namespace) == (
        Outcome.OK,
        200,
        "chat",
        "demo",
    )
    assert (record.prompt_tokens, record.completion_tokens, record.estimated) == (5, 2, False)
    assert (record.model, record.model_version, record.revision) == ("chat", "v7", "r1")
    assert record.response_bytes == len(response.body)


async def test_a_request_leaves_nothing_that_only_the_garbage_collector_could_free(gateway, engine):
    engine.script = lambda request: request.answer()
    client = await gateway.client()
    await client.ask(chat())
    gc.collect()
    gc.disable()
    try:
        await client.ask(chat())
        assert not [one for one in gc.get_objects() if type(one).__name__ in ("Exchange", "Attempt")]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("body", "path"),
    [
        pytest.param(chat(), "/v1/chat/completions", id="answered"),
        pytest.param(chat(model="none"), "/v1/chat/completions", id="an unknown model"),
        pytest.param(b"{", "/v1/chat/completions", id="a body that cannot be read"),
        pytest.param(chat(), "/nothing", id="an unknown path"),
    ],
)
async def test_a_record_has_all_its_fields_whatever_became_of_the_request(gateway, engine, body, path):
    engine.script = lambda request: request.answer()
    await gateway.ask(body, path=path)
    fields = asdict(await gateway.record())
    assert (fields["path"], fields["traceparent"], fields["retries"]) == (path, "", 0)
    assert fields["duration_s"] >= fields["queue_s"] >= 0


async def test_the_client_says_who_its_request_is_for_and_how_urgent_it_is(gateway, engine):
    engine.script = lambda request: request.answer()
    await gateway.serve(engine, capacity=1)
    first = await gateway.client()
    first.send(post(chat(stream=True), headers=["x-stoker-workload: batch"]))
    engine.script = None
    request = await engine.request()
    waiting = [await gateway.client() for _ in range(2)]
    for priority, client in zip((1, 9), waiting, strict=True):
        client.send(post(chat(user=f"{priority}"), headers=[f"x-stoker-priority: {priority}"]))
    await until(lambda: gateway.table.services["demo", "chat"].queue.queued == 2)
    order = []

    def note(request):
        order.append(request.json["user"])
        request.answer(order[-1].encode())

    engine.script = note
    request.stream(token("a"))
    assert [(await client.response()).body for client in waiting] == [b"1", b"9"]
    assert [r.workload for r in gateway.records] == ["batch", "demo", "demo"]
    assert [r.status for r in gateway.records] == [200, 200, 200]
    assert order == ["9", "1"]


async def test_a_form_without_a_model_goes_to_the_only_service_there_is(gateway, engine):
    engine.script = lambda request: request.answer(request.body)
    form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF\r\n--b--\r\n'
    kind = {"path": "/v1/audio/transcriptions", "content_type": "multipart/form-data; boundary=b"}
    assert (await gateway.ask(form, **kind)).body == form
    await gateway.serve(engine, name="other")
    response = await gateway.ask(form, **kind)
    assert (response.status, response.error["code"]) == (404, "model_not_found")


async def test_a_stream_goes_to_the_client_event_by_event(gateway, engine):
    client = await gateway.client()
    client.send(post(chat(stream=True)))
    request = await engine.request()
    request.begin()
    request.send(token("a"))
    head = await client.head()
    assert (head.status, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert (head.headers["x-accel-buffering"], head.headers["cache-control"]) == ("no", "no-cache")
    assert await client.piece() == token("a")
    request.send(token("b"))
    assert await client.piece() == token("b")
    request.send(usage(prompt=7, completion=2, cached=4))
    request.end()
    assert await client.piece() == DONE
    assert await client.piece() == b""
    record = await gateway.record()
    assert (record.outcome, record.streaming, record.events) == (Outcome.OK, True, 2)
    assert (record.prompt_tokens, record.cached_tokens, record.completion_tokens) == (7, 4, 2)


async def test_one_connection_carries_one_request_after_the_other_on_one_engine_connection(gateway, engine):
    engine.script = lambda request: request.answer(json.dumps({"n": engine.received}).encode())
    client = await gateway.client()
    assert [(await client.ask(chat())).json["n"] for _ in range(5)] == [1, 2, 3, 4, 5]
    assert len(engine.connections) == 1


async def test_the_engine_gets_the_request_without_what_was_meant_for_the_gateway(gateway, engine):
    client = await gateway.client()
    client.send(
        post(
            chat(),
            headers=[
                "Connection: keep-alive, X-Hop",
                "X-Hop: 1",
                "Accept-Encoding: gzip",
                "Authorization: Bearer key",
                "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "X-Request-Id: mine",
                "X-Own: a",
                "X-Own: b",
            ],
        )
    )
    request = await engine.request()
    names = sorted(name.decode().lower() for name, _ in request.raw_headers)
    assert names == [
        "authorization",
        "content-length",
        "content-type",
        "host",
        "traceparent",
        "x-own",
        "x-own",
        "x-request-id",
    ]
    assert request.head[b"x-request-id"] == b"mine"
    assert request.json == chat()
    request.answer()
    assert (await client.response()).headers["x-request-id"] == "mine"
    assert (await gateway.record()).traceparent.startswith("00-0af7")


async def test_g10_a_client_that_did_not_ask_for_usage_sees_no_extra_event_but_is_accounted_for(
    gateway, engine
):
    client = await gateway.client()
    client.send(post(chat(stream=True)))
    request = await engine.request()
    assert request.json == chat(stream=True) | {"stream_options": {"include_usage": True}}
    request.stream(token("a"), token("b"), usage(prompt=9, completion=2))
    response = await client.response()
    assert response.complete
    assert response.events == [token("a"), token("b"), DONE]
    record = await gateway.record()
    assert (record.prompt_tokens, record.completion_tokens, record.estimated) == (9, 2, False)


async def test_g10_a_client_that_asked_for_usage_gets_it(gateway, engine):
    asked = chat(stream=True, stream_options={"include_usage": True})
    client = await gateway.client()
    client.send(post(asked))
    request = await engine.request()
    assert request.body == json.dumps(asked).encode()
    request.stream(token("a"), usage())
    assert (await client.response()).events == [token("a"), usage(), DONE]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 100_000])
async def test_g10_wherever_the_stream_is_cut_the_framing_stays_right(gateway, engine, size):
    raw = HEAD + b"".join(map(chunk, [token("a"), token("b"), usage(), DONE])) + LAST_CHUNK
    client = await gateway.client()
    client.send(post(chat(stream=True)))
    request = await engine.request()
    for start in range(0, len(raw), size):
        request.write(raw[start : start + size])
        if size < 100:
            await asyncio.sleep(0)
    response = await client.response()
    assert response.complete
    assert response.events == [token("a"), token("b"), DONE]
    assert (await gateway.record()).completion_tokens == 3


async def test_a_prompt_is_kept_only_until_the_answer_begins(gateway, engine):
    prompt = "x" * 3_000_000
    client = await gateway.client()
    tracemalloc.start()
    try:
        client.send(post(chat(stream=True, user=prompt)))
        request = await engine.request()
        assert len(request.body) > len(prompt)
        request.body = b""
        held, _ = tracemalloc.get_traced_memory()
        request.begin()
        request.send(token("a"))
        await client.head()
        gc.collect()
        now, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held - now > 2_900_000
    client.leave()
    await gateway.record()


async def test_g11_who_leaves_before_the_usage_is_charged_what_came_so_far(gateway, engine):
    client = await gateway.client()
    client.send(post(chat(stream=True)))
    request = await engine.request()
    request.begin()
    request.send(token("a"), token("b"))
    await client.head()
    await client.piece()
    client.leave()
    record = await gateway.record()
    assert (record.outcome, record.completion_tokens, record.estimated) == (Outcome.CLIENT_GONE, 2, True)
    assert record.prompt_tokens > 0


async def test_g8_a_stream_refused_with_200_and_an_error_goes_to_another_instance(
    gateway, engine, other_engine
):
    await gateway.serve(engine, other_engine)
    refused = []

    def refuse(request):
        refused.append(request)
        request.stream(error("The queue is full", code=503))

    engine.script = refuse
    other_engine.script = lambda request: request.stream(token("a"))
    for _ in range(6):
        assert (await gateway.ask(chat(stream=True))).events == [token("a"), DONE]
    assert refused
    assert [r.outcome for r in gateway.records] == [Outcome.OK] * 6
    assert sum(r.retries for r in gateway.records) == len(refused)


@pytest.mark.parametrize(
    ("code", "outcome", "waits"),
    [
        pytest.param(503, Outcome.SHED, True, id="unavailable"),
        pytest.param(429, Outcome.SHED, True, id="too many"),
        pytest.param(400, Outcome.BAD_REQUEST, False, id="the request is wrong"),
        pytest.param(500, Outcome.UPSTREAM_ERROR, True, id="failed"),
    ],
)
async def test_g8_a_refused_stream_is_a_real_refusal_for_the_client(gateway, engine, code, outcome, waits):
    engine.script = lambda request: request.stream(error("No", code=code))
    response = await gateway.ask(chat(stream=True))
    assert response.status == code
    assert response.headers["content-type"] == "application/json"
    assert response.error["message"] == "No"
    assert ("retry-after" in response.headers) is waits
    assert (await gateway.record()).outcome is outcome


async def test_an_error_event_ends_the_stream_and_what_follows_is_not_sent(gateway, engine):
    engine.script = lambda request: request.stream(token("a"), error("EngineCore died"))
    response = await gateway.ask(chat(stream=True))
    assert response.events == [token("a"), error("EngineCore died")]
    assert not response.complete
    assert (await gateway.record()).outcome is Outcome.UPSTREAM_ERROR


async def test_an_engine_that_dies_mid_stream_ends_it_with_one_error_event(gateway, engine):
    client = await gateway.client()
    client.send(post(chat(stream=True)))
    request = await engine.request()
    request.begin()
    request.send(token("a"))
    request.write(chunk(token("b"))[:20])
    await client.head()
    assert await client.piece() == token("a")
    request.die()
    last = json.loads((await client.piece()).removeprefix(b"data: "))
    assert last["error"]["code"] == "engine_failed"
    assert await client.is_closed()
    record = await gateway.record()
    assert (record.outcome, record.code, record.status) == (Outcome.UPSTREAM_ERROR, "engine_failed", 200)


async def test_a_stream_that_says_it_is_done_is_complete_though_its_engine_dies(gateway, engine):
    def answer(request):
        request.begin()
        request.send(token("a"), DONE)
        request.die()

    engine.script = answer
    response = await gateway.ask(chat(stream=True))
    assert (response.complete, response.events) == (True, [token("a"), DONE])
    assert (await gateway.record()).outcome is Outcome.OK


async def test_an_engine_that_dies_in_an_answer_with_a_length_leaves_it_truncated(gateway, engine):
    def die_early(request):
        request.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
        request.close()

    engine.script = die_early
    response = await gateway.ask(chat())
    assert not response.complete
    assert (await gateway.record()).outcome is Outcome.UPSTREAM_ERROR


async def test_g6_streams_in_prefill_on_a_killed_engine_all_finish_on_the_other(
    gateway, engine, other_engine
):
    await gateway.serve(engine, other_engine, capacity=40)
    clients = [await gateway.client() for _ in range(20)]
    for client in clients:
        client.send(post(chat(stream=True)))
    await until(lambda: engine.received + other_engine.received == 20)
    for side in [*engine.connections, *other_engine.connections]:
        side.begin()  # As vLLM does: the head comes before the prefill is over.
    other_engine.script = lambda request: request.stream(token("a"))
    assert engine.received >= 5
    await engine.kill()
    for side in other_engine.connections[: other_engine.received]:
        side.send(token("a"))
        side.end()
    responses = [await client.response() for client in clients]
    assert [r.complete and r.events == [token("a"), DONE] for r in responses] == [True] * 20
    assert [r.outcome for r in gateway.records] == [Outcome.OK] * 20


async def test_g13_a_post_that_crosses_with_the_closing_of_an_idle_connection_does_not_fail(gateway, engine):
    def answer_once(request):
        if request.requests == 1:
            request.answer()
        else:
            request.die()

    engine.script = answer_once
    client = await gateway.client()
    assert [(await client.ask(chat())).status for _ in range(20)] == [200] * 20
    assert sum(r.retries for r in gateway.records) == 0


async def test_g13_an_idle_connection_that_the_engine_closed_is_not_used(gateway, engine):
    def answer_and_close(request):
        request.answer()
        request.close()

    engine.script = answer_and_close
    client = await gateway.client()
    assert [(await client.ask(chat())).status for _ in range(20)] == [200] * 20
    assert engine.received == 20


@pytest.mark.parametrize("phase", ["queued", "prefill", "first event", "mid-stream", "not a stream"])
async def test_g5_a_client_that_leaves_ends_its_request_at_once(gateway, engine, phase):
    await gateway.serve(engine, capacity=1)
    first = await gateway.client()
    first.send(post(chat(stream=phase != "not a stream")))
    request = await engine.request()
    if phase == "queued":
        second = await gateway.client()
        second.send(post(chat(stream=True)))
        await until(lambda: gateway.table.services["demo", "chat"].queue.queued)
        second.leave()
        await until(lambda: gateway.records)
        request.stream(token("a"))
        assert (await first.response()).complete
        assert engine.received == 1
        assert [r.outcome for r in gateway.records] == [Outcome.CLIENT_GONE, Outcome.OK]
        return
    if phase in ("first event", "mid-stream"):
        request.begin()
    if phase == "mid-stream":
        request.send(token("a"))
        await first.head()
    first.leave()
    async with asyncio.timeout(0.1):
        await request.lost.wait()
    assert (await gateway.record()).outcome is Outcome.CLIENT_GONE


async def test_g5_after_many_clients_of_which_some_leave_nothing_is_left_over(gateway, engine, other_engine):
    await gateway.serve(engine, other_engine, capacity=16, max_requests=1000)

    def answer(request):
        asyncio.get_running_loop().call_later(
            0.001, lambda: request.lost.is_set() or request.stream(token("a"))
        )

    engine.script = other_engine.script = answer

    async def ask(n):
        client = await gateway.client()
        client.send(post(chat(stream=True)))
        if n % 10 == 0:
            await asyncio.sleep(0.0005 * (n % 7))
            client.leave()
            return
        assert (await client.response()).events == [token("a"), DONE]

    for start in range(0, 300, 60):
        await asyncio.gather(*(ask(n) for n in range(start, start + 60)))
    await until(lambda: len(gateway.records) == 300 or all(not i.in_flight for i in gateway.instances))
    assert sum(r.outcome is Outcome.OK for r in gateway.records) >= 270


async def test_g1_without_an_instance_or_a_place_the_client_is_told_when_to_come_back():
    async with Gateway() as gateway:
        await gateway.serve()
        response = await gateway.ask(chat())
        assert (response.status, response.error["code"]) == (503, "no_instance")
        assert int(response.headers["retry-after"]) > 0


async def test_g1_a_full_queue_and_a_wait_that_is_over_are_told_apart(gateway, engine):
    await gateway.serve(engine, capacity=1, max_requests=1, max_wait_s=0.3)
    running, waiting = await gateway.client(), await gateway.client()
    running.send(post(chat(stream=True)))
    await engine.request()
    waiting.send(post(chat(stream=True)))
    await until(lambda: gateway.table.services["demo", "chat"].queue.queued)
    full = await gateway.ask(chat(), headers=["x-stoker-workload: same"])
    over = await waiting.response()
    codes = {full.error["code"]: full.status, over.error["code"]: over.status}
    assert codes == {"queue_full": 429, "queue_timeout": 503}
    assert all(int(r.headers["retry-after"]) > 0 for r in (full, over))
