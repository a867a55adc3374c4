"""What curl sends that libraries do not."""

import asyncio
import json
import re

import pytest
from tests.unit.gateway.gateway import CHAT, chat
from tests.unit.gateway.scripted_engine import DONE, token


async def curl(gateway, *arguments, urls=1, body=None):
    """What it prints, and what it says about the connection."""
    url = f"http://127.0.0.1:{gateway.port}{CHAT}"
    process = await asyncio.create_subprocess_exec(
        *("curl", "-s", "-v", "-N", "--max-time", "10", "-H", "content-type: application/json"),
        *("--data-binary", "@-", *arguments, *[url] * urls),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, said = await process.communicate(json.dumps(body or chat()).encode())
    assert process.returncode == 0, said
    return printed, said.decode()


@pytest.fixture(autouse=True)
def echo(engine):
    def answer(request):
        if request.json.get("stream"):
            request.stream(token("a"), token("b"))
        else:
            request.answer(request.body)

    engine.script = answer


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["--http1.0"], "HTTP/1.0", id="HTTP/1.0"),
        pytest.param(["-H", "Transfer-Encoding: chunked"], "Transfer-Encoding: chunked", id="chunks"),
        pytest.param(["-H", "Expect: 100-continue"], "HTTP/1.1 100 Continue", id="Expect"),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_however_it_sends_the_answer_is_whole(gateway, arguments, says, stream):
    printed, said = await curl(gateway, *arguments, body=chat(stream=stream))
    assert says in said
    if stream:
        assert printed == token("a") + token("b") + DONE
    else:
        assert json.loads(printed) == chat()


async def test_a_body_of_megabytes_waits_for_100(gateway):
    body = chat(padding="x" * 3_000_000)
    printed, said = await curl(gateway, body=body)
    assert "100 Continue" in said
    assert json.loads(printed) == body


async def test_several_requests_take_one_connection(gateway, engine):
    printed, said = await curl(gateway, urls=3)
    assert printed.count(b'"messages"') == 3
    assert len(re.findall(r"Re-?using existing", said)) == 2
    assert engine.received == 3
