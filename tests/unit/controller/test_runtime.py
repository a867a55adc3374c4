"""What becomes of a reconcile's result; the parts together are tested on a real API server."""

import asyncio

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.aio.client import Configuration

from stoker.controller.queue import Key
from stoker.controller.runtime import Operator, _phase
from stoker.kube.client import Client
from stoker.kube.errors import FatalError, InvalidError, RetryError
from stoker.settings import Settings

KEY = Key("demo", "chat")


class Worker:
    """Ends each reconcile as it was told to."""

    def __init__(self, *ends):
        self.ends = list(ends)
        self.all_done = asyncio.Event()

    async def reconcile(self, key):
        end = self.ends.pop(0)
        if not self.ends:
            self.all_done.set()
        if isinstance(end, Exception):
            raise end
        return end


@pytest.fixture
async def operator():
    async with Client(Configuration(host="http://127.0.0.1:1")) as client, aiohttp.ClientSession() as session:
        yield Operator(Settings(), client=client, session=session)


@pytest.mark.parametrize(
    ("end", "result", "least_s", "most_s"),
    [
        pytest.param(30.0, "done", 29, 30, id="a plan says when to look again"),
        pytest.param(None, "done", None, None, id="nothing to wait for, nothing planned"),
        pytest.param(RetryError("reading", "busy"), "retry", 0.4, 0.7, id="a failure comes back soon"),
        pytest.param(
            RetryError("reading", "busy", retry_after_s=40),
            "retry",
            39,
            50,
            id="but as late as the server asks",
        ),
        pytest.param(
            InvalidError("applying", "quota"), "invalid", 0.4, 0.7, id="a refusal is tried again too"
        ),
        pytest.param(KeyError("a mistake of ours"), "crashed", 0.4, 0.7, id="so is a crash"),
    ],
)
async def test_a_reconcile_is_looked_at_again_when_it_should_be(operator, end, result, least_s, most_s):
    operator._worker = Worker(end)
    assert await operator._reconcile(KEY) == result
    due_s = operator._queue._next_due_s()
    if least_s is None:
        assert due_s is None
    else:
        assert least_s <= due_s <= most_s


async def test_a_crash_of_one_service_does_not_stop_the_others(operator):
    operator._worker = worker = Worker(KeyError("a mistake of ours"), None, None)
    operator._lease.held.set()
    for name in "abc":
        operator._queue.add(Key("demo", name))
    work = asyncio.create_task(operator._work())
    async with asyncio.timeout(5):
        await worker.all_done.wait()
    operator._queue.close()
    await work


async def test_a_part_that_ends_by_itself_ends_the_operator(operator):
    async def part():
        return

    with pytest.raises(FatalError, match="running the watches: it ended by itself"):
        await operator._first_end({asyncio.create_task(part(), name="watches")})


async def test_a_port_that_is_taken_is_said_in_a_sentence(operator, unused_tcp_port):
    server = await asyncio.start_server(lambda *_: None, "0.0.0.0", unused_tcp_port)
    settings = Settings(port=unused_tcp_port)
    async with server:
        taken = Operator(settings, client=operator._client, session=operator._worker.reports._session)
        with pytest.raises(FatalError, match=r"opening the HTTP port: .*choose another --port"):
            await taken.run()


@given(st.lists(st.text("abcdefgh-", min_size=1, max_size=20), min_size=1, max_size=50))
def test_every_service_has_its_own_turn_in_the_resync_and_keeps_it(names):
    for name in names:
        assert 0 <= _phase(Key("demo", name)) < 1
        assert _phase(Key("demo", name)) == _phase(Key("demo", name))
