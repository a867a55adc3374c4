"""Clients of a service: one question, a long stream, and a prober that never stops asking."""

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass, field

import aiohttp

_TIMEOUT = aiohttp.ClientTimeout(total=120, sock_connect=5)
_EVERY_S = 0.1


def question(text="hello world", *, name="chat", **fields):
    """Body of a completion request; the stand-in engine answers with the text again and again."""
    return {"model": name, "prompt": text, "max_tokens": 4} | fields


async def ask(session, url, body):
    """Text of an answer; an AssertionError for anything else."""
    async with session.post(f"{url}/v1/completions", json=body) as response:
        said = await response.text()
        assert response.status == 200, f"HTTP {response.status}: {said[:200]}"
        return json.loads(said)["choices"][0]["text"]


async def stream(session, url, body, *, started=None):
    """Pieces of a streamed answer, which must come to its proper end; sets `started` at the first."""
    pieces = []
    async with session.post(f"{url}/v1/completions", json=body | {"stream": True}) as response:
        assert response.status == 200, f"HTTP {response.status}: {await response.text()}"
        async for line in response.content:
            if not line.startswith(b"data: "):
                continue
            data = line.removeprefix(b"data: ").strip()
            if data == b"[DONE]":
                return pieces
            event = json.loads(data)
            assert "error" not in event, event
            pieces += [choice["text"] for choice in event["choices"] if choice["text"]]
            if started is not None:
                started.set()
    raise AssertionError(f"the stream was cut after {len(pieces)} pieces")


def session(*, keep_alive=True):
    """A pool of connections, or a new connection for each request."""
    connector = aiohttp.TCPConnector(force_close=not keep_alive)
    return aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT, trust_env=False)


@dataclass
class Probes:
    """What a prober saw."""

    answered: int = 0
    failed: list[str] = field(default_factory=list)

    def __str__(self):
        return f"{self.answered} requests answered, {len(self.failed)} failed"


@contextlib.asynccontextmanager
async def prober(url, *, name="chat"):
    """Asks ten times a second on one kept connection, and as often on a new one each time."""
    probes = Probes()
    began = time.monotonic()

    async def probe(keep_alive):
        async with session(keep_alive=keep_alive) as client:
            while True:
                try:
                    await ask(client, url, question(name=name))
                    probes.answered += 1
                except (AssertionError, aiohttp.ClientError, TimeoutError) as error:
                    at_s, kind = time.monotonic() - began, "kept" if keep_alive else "new"
                    probes.failed.append(f"{at_s:.1f} s, {kind} connection: {error!r}")
                await asyncio.sleep(_EVERY_S)

    tasks = [asyncio.create_task(probe(keep_alive)) for keep_alive in (True, False)]
    try:
        yield probes
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks), tasks
