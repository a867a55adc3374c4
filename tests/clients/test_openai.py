"""What users of OpenAI's own package see."""

import asyncio
import json
import time

import openai
import pytest
from tests.unit.gateway.gateway import Gateway, until
from tests.unit.gateway.scripted_engine import error, event, token, usage

from stoker.gateway.outcome import Outcome

HI = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def client_of(gateway, **options):
    options.setdefault("max_retries", 0)
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key="none", **options)


@pytest.fixture
async def client(gateway):
    async with client_of(gateway) as client:
        yield client


def completion(message):
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    figures = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    content = {"id": "a", "object": "chat.completion", "created": 1, "model": "chat"}
    return json.dumps(content | {"choices": [choice], "usage": figures}).encode()


async def test_an_answer(client, gateway, engine):
    engine.script = lambda request: request.answer(completion({"content": "Hello"}))
    answer = await client.chat.completions.create(model="chat", messages=HI)
    assert (answer.choices[0].message.content, answer.usage.total_tokens) == ("Hello", 7)
    assert (await gateway.record()).outcome is Outcome.OK


async def test_a_stream(client, engine):
    engine.script = lambda request: request.stream(token("Hel"), token("lo"), usage())
    stream = await client.chat.completions.create(model="chat", messages=HI, stream=True)
    chunks = [chunk async for chunk in stream]
    assert [chunk.choices[0].delta.content for chunk in chunks] == ["Hel", "lo"]


async def test_a_stream_with_its_usage(client, engine):
    engine.script = lambda request: request.stream(token("Hello"), usage(prompt=7, completion=1))
    stream = await client.chat.completions.create(
        model="chat", messages=HI, stream=True, stream_options={"include_usage": True}
    )
    *_, last = [chunk async for chunk in stream]
    assert (last.choices, last.usage.prompt_tokens, last.usage.completion_tokens) == ([], 7, 1)


async def test_tools(client, engine):
    function = {"name": "weather", "arguments": '{"city": "Oslo"}'}

    def call_it(request):
        assert request.json["tools"] == [TOOL]
        calls = [{"id": "c", "type": "function", "function": function}]
        request.answer(completion({"content": None, "tool_calls": calls}))

    engine.script = call_it
    answer = await client.chat.completions.create(model="chat", messages=HI, tools=[TOOL])
    assert answer.choices[0].message.tool_calls[0].function.arguments == function["arguments"]


async def test_tools_in_a_stream(client, engine):
    def part(**function):
        delta = {"tool_calls": [{"index": 0, "function": function}]}
        return event({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]})

    engine.script = lambda request: request.stream(
        part(name="weather", arguments=""), part(arguments='{"city":'), part(arguments='"Oslo"}'), usage()
    )
    stream = await client.chat.completions.create(model="chat", messages=HI, tools=[TOOL], stream=True)
    calls = [chunk.choices[0].delta.tool_calls[0] async for chunk in stream]
    assert "".join(call.function.arguments for call in calls) == '{"city":"Oslo"}'


async def test_the_models(client):
    assert [model.id async for model in client.models.list()] == ["chat"]


async def test_a_stream_that_is_cancelled_ends_at_the_engine(client, gateway, engine):
    asked = asyncio.create_task(client.chat.completions.create(model="chat", messages=HI, stream=True))
    request = await engine.request()
    request.begin()
    request.send(token("Hel"))
    stream = await asked
    assert (await anext(stream)).choices[0].delta.content == "Hel"
    cancelled_s = time.monotonic()
    await stream.close()
    async with asyncio.timeout(5):
        await request.lost.wait()
    assert time.monotonic() - cancelled_s < 0.1
    assert (await gateway.record()).outcome is Outcome.CLIENT_GONE


async def test_a_request_that_is_cancelled_before_its_answer_ends_at_the_engine(client, gateway, engine):
    asked = asyncio.create_task(client.chat.completions.create(model="chat", messages=HI))
    request = await engine.request()
    asked.cancel()
    async with asyncio.timeout(5):
        await request.lost.wait()
    assert (await gateway.record()).outcome is Outcome.CLIENT_GONE


async def test_a_429_is_tried_again_after_the_time_that_it_says(engine):
    async with Gateway() as gateway, client_of(gateway, max_retries=2) as client:
        await gateway.serve(engine, capacity=1, max_requests=0, max_wait_s=1.0)
        first = asyncio.create_task(client.chat.completions.create(model="chat", messages=HI))
        request = await engine.request()
        second = asyncio.create_task(client.chat.completions.create(model="chat", messages=HI))
        await until(lambda: gateway.records)
        refused_s = time.monotonic()
        request.answer(completion({"content": "one"}))
        again = await engine.request()
        waited_s = time.monotonic() - refused_s
        again.answer(completion({"content": "two"}))
        answers = [(await task).choices[0].message.content for task in (first, second)]
        assert answers == ["one", "two"]
        # Without the header the package would come back after half a second.
        assert waited_s >= 0.95
        assert [record.code for record in gateway.records] == ["queue_full", "", ""]


@pytest.mark.parametrize(
    ("asked", "error_class", "code", "param"),
    [
        pytest.param({"model": "other"}, openai.NotFoundError, "model_not_found", "model", id="model"),
        pytest.param({"model": ""}, openai.BadRequestError, "invalid_request", "model", id="no model"),
    ],
)
async def test_a_refusal_has_its_class_and_code(client, asked, error_class, code, param):
    with pytest.raises(error_class) as refused:
        await client.chat.completions.create(messages=HI, **asked)
    assert (refused.value.code, refused.value.param) == (code, param)


async def test_without_an_instance_the_service_is_unavailable(gateway, client):
    await gateway.serve()
    with pytest.raises(openai.InternalServerError) as refused:
        await client.chat.completions.create(model="chat", messages=HI)
    assert (refused.value.status_code, refused.value.code) == (503, "no_instance")
    assert int(refused.value.response.headers["retry-after"]) >= 1


@pytest.mark.parametrize("says_so", [True, False], ids=["the engine says so", "the engine dies"])
async def test_a_stream_that_breaks_off_raises(client, engine, says_so):
    def fail(request):
        request.begin()
        request.send(token("Hel"))
        if says_so:
            request.send(error())
            request.end()
        else:
            request.close()

    engine.script = fail
    stream = await client.chat.completions.create(model="chat", messages=HI, stream=True)
    assert (await anext(stream)).choices[0].delta.content == "Hel"
    with pytest.raises(openai.APIError):
        await anext(stream)
