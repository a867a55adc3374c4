"""What a client, a scraper and a supervisor see of a healthy engine, over real sockets."""

import asyncio
import json
import time

import pytest
from tests.unit.stand_in_engine.harness import Stream, events, wait_until


def in_engine(engine):
    """Requests that run or wait; those that come while the engine stalls are not admitted."""
    return engine.metric("num_requests_running") + engine.metric("num_requests_waiting")


def test_an_answer_ends_by_itself_and_repeats_the_prompt(start):
    engine = start(STAND_IN_ANSWER_TOKENS="3").wait_ready()
    choice = json.loads(engine.chat("red green").text)["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("red green red", "stop")


def test_max_tokens_cuts_the_answer(engine):
    answer = json.loads(engine.chat("red green", max_tokens=3).text)
    assert answer["choices"][0]["message"]["content"] == "red green red"
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 3


def test_a_stream_says_the_same_as_a_whole_answer(engine):
    whole = json.loads(engine.chat("one two three").text)
    documents, done = events(
        engine.chat("one two three", stream=True, stream_options={"include_usage": True}).text
    )
    said = "".join(each["choices"][0]["delta"]["content"] for each in documents if each["choices"])
    assert said == whole["choices"][0]["message"]["content"]
    assert documents[-1]["usage"].items() <= whole["usage"].items()
    assert done


async def test_tokens_come_one_by_one(engine):
    engine.set_faults(slow_factor=25)
    stream = await Stream.open(engine, max_tokens=4)
    assert b"200 OK" in await stream.head()
    arrived_s = []
    while await stream.piece():
        arrived_s.append(time.monotonic())
    await stream.leave()
    assert len(arrived_s) == 1 + 4 + 1, "the role, four tokens, the end"
    assert arrived_s[-2] - arrived_s[0] >= 3 * 0.04


async def test_the_head_of_a_stream_comes_before_its_prompt_is_computed(engine):
    engine.set_faults(stall_after_tokens=0)
    stream = await Stream.open(engine)
    assert b"200 OK" in await stream.head()
    with pytest.raises(asyncio.TimeoutError):
        await stream.piece(patience_s=0.2)
    await stream.leave()


async def test_a_client_that_leaves_frees_its_place_at_once(engine):
    engine.set_faults(stall_after_tokens=2)
    streams = [await Stream.open(engine) for _ in range(3)]
    for stream in streams:
        await stream.head()
    await asyncio.to_thread(wait_until, lambda: in_engine(engine) == 3)
    for stream in streams:
        await stream.leave()
    left_s = time.monotonic()
    await asyncio.to_thread(wait_until, lambda: in_engine(engine) == 0)
    assert time.monotonic() - left_s < 1
    assert engine.metric("kv_cache_usage_perc") == 0
    assert json.loads(engine.get("/load").text) == {"server_load": 0}


async def test_aborted_requests_are_not_counted_as_successes(engine):
    before = engine.metrics()
    engine.set_faults(stall_after_tokens=1)
    stream = await Stream.open(engine)
    await stream.head()
    await asyncio.to_thread(wait_until, lambda: in_engine(engine) == 1)
    await stream.leave()
    await asyncio.to_thread(wait_until, lambda: in_engine(engine) == 0)
    counts = [name for name in before if name.startswith("vllm:request_success_total")]
    after = engine.metrics()
    assert [after[name] for name in counts] == [before[name] for name in counts]


def test_scrapes_and_probes_do_not_count_as_requests(engine):
    def requests():
        return {
            name: value
            for name, value in engine.metrics().items()
            if name.startswith(
                ("vllm:request_success", "vllm:e2e", "vllm:prompt_tokens", "http_requests_total")
            )
            and "_created" not in name
        }

    before = requests()
    for _ in range(5):
        for path in ("/metrics", "/health", "/version", "/load", "/ping", "/faults"):
            assert engine.get(path).status == 200
    assert requests() == before
    assert in_engine(engine) == 0


async def test_load_is_told_while_requests_run(engine):
    engine.set_faults(stall_after_tokens=0)
    streams = [await Stream.open(engine) for _ in range(2)]
    for stream in streams:
        await stream.head()
    assert json.loads(engine.get("/load").text) == {"server_load": 2}
    for stream in streams:
        await stream.leave()


async def test_what_exceeds_the_batch_waits(start):
    engine = await asyncio.to_thread(start("--max-num-seqs", "2").wait_ready)
    engine.set_faults(slow_factor=200)
    streams = [await Stream.open(engine, max_tokens=5) for _ in range(5)]
    for stream in streams:
        await stream.head()
    await asyncio.to_thread(wait_until, lambda: engine.metric("num_requests_waiting") == 3)
    assert engine.metric("num_requests_running") == 2
    assert engine.metric("num_requests_waiting_by_reason", reason="capacity") == 3
    engine.request("DELETE", "/faults")
    ends = await asyncio.gather(*(stream.pieces() for stream in streams))
    assert all(pieces[-1] == "data: [DONE]\n\n" for pieces in ends)
    assert engine.metric("request_success_total", finished_reason="length") == 5


async def test_a_full_queue_refuses_with_vllms_words(start):
    engine = await asyncio.to_thread(start("--max-num-queued-reqs", "1").wait_ready)
    engine.set_faults(stall_after_tokens=0)
    stream = await Stream.open(engine)
    await stream.head()
    answer = engine.chat(stream=True)
    assert answer.status == 503
    assert json.loads(answer.text)["error"]["type"] == "Service Unavailable"
    rejections = 'vllm:admission_rejections_total{model_name="tiny",reason="max_num_queued_reqs"}'
    assert engine.metrics()[rejections] == 1
    await stream.leave()


def test_kv_cache_runs_out_and_requests_are_preempted(start):
    engine = start("--num-gpu-blocks-override", "41", "--max-model-len", "512").wait_ready()

    async def load():
        streams = [await Stream.open(engine, max_tokens=300) for _ in range(4)]
        for stream in streams:
            await stream.head()
        return await asyncio.gather(*(stream.pieces() for stream in streams))

    ends = asyncio.run(load())
    assert [pieces[-1] for pieces in ends] == ["data: [DONE]\n\n"] * 4
    assert engine.metric("num_preemptions_total") > 0
    assert engine.metric("generation_tokens_total") == 4 * 300


async def test_hundreds_of_streams_run_together(engine):
    streams = await asyncio.gather(*(Stream.open(engine, max_tokens=20) for _ in range(300)))

    async def read(stream):
        await stream.head()
        return await stream.pieces()

    ends = await asyncio.gather(*(read(stream) for stream in streams))
    assert all(pieces[-1] == "data: [DONE]\n\n" for pieces in ends)
    assert in_engine(engine) == 0


def test_two_prompts_with_two_choices_each(engine):
    body = {"model": "tiny", "prompt": ["one two", "three"], "n": 2, "max_tokens": 2}
    answer = json.loads(engine.request("POST", "/v1/completions", body).text)
    texts = [(choice["index"], choice["text"]) for choice in answer["choices"]]
    assert texts == [(0, "one two"), (1, "one two"), (2, "three three"), (3, "three three")]
    assert answer["usage"]["completion_tokens"] == 8


def test_embeddings_of_a_pooling_model(start):
    engine = start("--runner", "pooling").wait_ready()
    answer = engine.request("POST", "/v1/embeddings", {"model": "tiny", "input": ["one", "two", "one"]})
    document = json.loads(answer.text)
    vectors = [each["embedding"] for each in document["data"]]
    assert vectors[0] == vectors[2] != vectors[1]
    assert sum(value * value for value in vectors[0]) == pytest.approx(1, abs=1e-4)
    assert document["usage"]["prompt_tokens"] == 3
    assert engine.chat().status == 404


def test_adapters_are_models_too(start, model):
    adapter = model.parent / "adapter"
    adapter.mkdir(exist_ok=True)
    (adapter / "adapter_config.json").write_text("{}")
    engine = start("--enable-lora", "--lora-modules", f"poet={adapter}").wait_ready()
    cards = {card["id"]: card for card in json.loads(engine.get("/v1/models").text)["data"]}
    assert (cards["poet"]["parent"], cards["poet"]["root"]) == ("tiny", str(adapter))
    answer = json.loads(engine.chat(model="poet").text)
    assert answer["model"] == "poet"


def test_middleware_stands_around_the_application(start, model):
    (model.parent / "marking.py").write_text(
        "class First:\n"
        "    mark = b'first'\n"
        "    def __init__(self, app):\n"
        "        self.app = app\n"
        "    async def __call__(self, scope, receive, send):\n"
        "        async def marked(message):\n"
        "            if message['type'] == 'http.response.start':\n"
        "                message['headers'] = [*message['headers'], (b'x-mark', self.mark)]\n"
        "            await send(message)\n"
        "        await self.app(scope, receive, marked)\n"
        "class Second(First):\n"
        "    mark = b'second'\n"
    )
    engine = start(
        "--middleware", "marking.First", "--middleware", "marking.Second", path=[model.parent]
    ).wait_ready()
    marks = engine.get("/version").headers.get_all("x-mark")
    assert marks == ["first", "second"], "the last one given stands outside"
    assert engine.get("/faults").headers.get_all("x-mark") is None
