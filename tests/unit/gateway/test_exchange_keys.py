"""Requests to a gateway that asks for API keys."""

import hashlib
import json

import pytest
from tests.unit.gateway.gateway import chat, post, until

from stoker.gateway.keys import KeyRing

AUTHORIZATION = "Authorization: Bearer key-a"


@pytest.fixture
def keys(gateway):
    """Has the gateway ask for the key `key-a` of team-a, with these limits."""

    def use(**limits):
        ring = KeyRing(salt=b"0123456789abcdef")
        entry = {"sha256": [hashlib.sha256(b"key-a").hexdigest()], **limits}
        assert ring.update({"team-a": json.dumps(entry).encode()}, replicas=1) == ()
        gateway.data_path.keys = ring
        return ring.authenticate(b"Bearer key-a")

    return use


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([], id="no key"),
        pytest.param(["Authorization: Bearer key-b"], id="a key that is not known"),
    ],
)
async def test_without_a_key_nothing_reaches_an_engine(gateway, engine, keys, headers):
    keys()
    response = await gateway.ask(chat(), headers=headers)
    assert (response.status, response.error["code"]) == (401, "unauthorized")
    assert response.headers["www-authenticate"] == "Bearer"
    assert engine.received == 0


async def test_a_body_is_not_read_for_somebody_without_a_key(gateway, keys):
    keys()
    client = await gateway.client()
    client.send(post(b"", headers=["Content-Length: 50000000"], framed=False))
    response = await client.response()
    assert response.status == 401
    assert await client.is_closed()


async def test_what_is_served_is_told_to_those_with_a_key_only(gateway, keys):
    keys()
    client = await gateway.client()
    client.send(b"GET /v1/models HTTP/1.1\r\nHost: g\r\n\r\n")
    assert (await client.response()).status == 401
    client.send(f"GET /v1/models HTTP/1.1\r\nHost: g\r\n{AUTHORIZATION}\r\n\r\n".encode())
    assert [m["id"] for m in (await client.response()).json["data"]] == ["chat"]


async def test_with_a_key_a_request_is_its_teams_and_the_engine_does_not_see_the_key(gateway, engine, keys):
    keys()
    client = await gateway.client()
    client.send(post(chat(), headers=[AUTHORIZATION, "X-Own: yes"]))
    request = await engine.request()
    assert b"authorization" not in request.head
    assert request.head[b"x-own"] == b"yes"
    request.answer(b"{}")
    assert (await client.response()).status == 200
    assert (await gateway.record()).workload == "team-a"


async def test_a_limit_holds_until_a_request_has_ended(gateway, engine, keys):
    key = keys(concurrency=1)
    client = await gateway.client()
    client.send(post(chat(), headers=[AUTHORIZATION]))
    request = await engine.request()
    refused = await gateway.ask(chat(), headers=[AUTHORIZATION])
    assert (refused.status, refused.error["code"]) == (429, "rate_limited")
    assert 1 <= int(refused.headers["retry-after"]) <= 2
    request.answer(b"{}")
    await client.response()
    assert key.in_flight == 0


async def test_a_client_that_leaves_gives_its_place_back(gateway, engine, keys):
    key = keys(concurrency=1)
    client = await gateway.client()
    client.send(post(chat(), headers=[AUTHORIZATION]))
    await engine.request()
    assert key.in_flight == 1
    client.leave()
    await until(lambda: key.in_flight == 0)


async def test_tokens_count_as_the_engine_says_at_the_end(gateway, engine, keys):
    key = keys(tokensPerMinute=10_000)
    engine.script = lambda request: request.answer(b'{"usage":{"prompt_tokens":5,"completion_tokens":2}}')
    await gateway.ask(chat(max_tokens=900), headers=[AUTHORIZATION])
    assert key.tokens.used == 7
