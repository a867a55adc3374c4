"""Many requests with faults by chance: whatever happens, each has one outcome and nothing is left over."""

import asyncio
import random
from collections import Counter

import pytest
from tests.unit.gateway.gateway import Gateway, chat, post, until
from tests.unit.gateway.scripted_engine import DONE, JUNK, ScriptedEngine, error, token, usage

from stoker.gateway.outcome import Outcome

_REQUESTS = 160
_AT_ONCE = 40


def finish(request):
    if not request.lost.is_set():
        request.send(token("a"))
        request.end()


def faulty(draw):
    """A script for an engine that fails in every way, but mostly does not."""

    def script(request):
        loop = asyncio.get_running_loop()
        fault = draw.choices(
            ["none", "slow", "die", "refuse", "503", "cut", "error", "hang", "junk", "close"],
            [60, 10, 4, 4, 4, 4, 4, 4, 2, 4],
        )[0]
        if fault == "slow":
            request.begin()
            loop.call_later(draw.random() / 20, finish, request)
        elif fault == "die":
            loop.call_later(draw.random() / 50, request.die)
        elif fault == "refuse":
            request.stream(error("full", code=503))
        elif fault == "503":
            request.answer(b'{"error":{}}', status=503)
        elif fault == "cut":
            request.begin()
            request.send(token("a"))
            loop.call_later(draw.random() / 50, request.die)
        elif fault == "error":
            request.stream(token("a"), error("died"))
        elif fault == "hang":
            request.begin()
        elif fault == "junk":
            request.write(JUNK)
        else:
            request.stream(token("a"), token("b"), usage())
            if fault == "close":
                request.close()

    return script


async def one_client(gateway, draw):
    client = await gateway.client()
    client.send(post(chat(stream=True)))
    if draw.random() < 0.1:
        await asyncio.sleep(draw.random() / 30)
        client.leave()
        return "left"
    try:
        response = await client.response()
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return "cut before its head"
    if response.status == 200 and response.complete:
        assert response.events[-1] == DONE
        return "whole"
    assert DONE not in response.body
    if response.status == 200:
        assert b'"error"' in response.events[-1]
        return "broken"
    assert response.error is not None
    return "refused"


@pytest.mark.parametrize("seed", [1])
async def test_every_request_has_one_outcome_and_the_client_knows_it(seed):
    draw = random.Random(seed)
    limits = {"silence_s": 0.3, "answer_s": 1.0}
    async with (
        ScriptedEngine() as one,
        ScriptedEngine() as two,
        ScriptedEngine() as three,
        Gateway(**limits) as gateway,
    ):
        engines = [one, two, three]
        for engine in engines:
            engine.script = faulty(draw)
        told = Counter()
        for _ in range(_REQUESTS // _AT_ONCE):
            # Endpoints come, go and come back.
            serving = draw.sample(engines, draw.randint(1, 3))
            await gateway.serve(
                *serving, capacity=20, max_requests=60, max_wait_s=3.0, first_byte_timeout_s=0.3
            )
            told.update(await asyncio.gather(*(one_client(gateway, draw) for _ in range(_AT_ONCE))))
        await until(lambda: not any(i.in_flight for i in gateway.instances))
    outcomes = Counter(r.outcome for r in gateway.records)
    assert told["whole"] >= _REQUESTS * 0.6
    assert not told["cut before its head"]
    assert outcomes[Outcome.OK] >= told["whole"]
    # Who left before its head was read was never a request.
    assert _REQUESTS - told["left"] <= len(gateway.records) <= _REQUESTS
