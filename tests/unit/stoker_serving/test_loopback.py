import asyncio

import pytest

from stoker_serving.loopback import Engine


@pytest.fixture
async def answering():
    """Starts a server that gives `answer` to whoever asks; yields a function that returns its port."""
    servers, asked = [], []

    async def start(answer, *, hold=False):
        async def handle(reader, writer):
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            if hold:
                await reader.read(-1)
            writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        servers.append(server)
        return server.sockets[0].getsockname()[1]

    start.asked = asked
    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


async def test_reads_a_whole_answer(answering):
    port = await answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    answer = await Engine(port=port).get("/health", timeout_s=10)
    assert (answer.status, answer.json()) == (200, {})


async def test_reads_an_answer_in_chunks(answering):
    port = await answering(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[1\r\n1\r\n]\r\n0\r\n\r\n"
    )
    assert (await Engine(port=port).get("/", timeout_s=10)).json() == [1]


async def test_what_is_not_json_is_none(answering):
    port = await answering(b"HTTP/1.1 500 Oh\r\n\r\nInternal Server Error")
    answer = await Engine(port=port).get("/", timeout_s=10)
    assert (answer.status, answer.json()) == (500, None)


async def test_sends_the_engines_key(answering):
    port = await answering(b"HTTP/1.1 200 OK\r\n\r\n")
    await Engine(port=port, api_key="secret").get("/", timeout_s=10)
    assert b"Authorization: Bearer secret\r\n" in answering.asked[0]


@pytest.mark.parametrize(
    ("answer", "hold"),
    [
        pytest.param(b"", False, id="hangs up without a word"),
        pytest.param(b"SSH-2.0\r\n\r\n", False, id="speaks another language"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", False, id="hangs up in the middle"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", True, id="never ends"),
    ],
)
async def test_no_whole_answer_in_time_is_an_os_error(answering, answer, hold):
    port = await answering(answer, hold=hold)
    with pytest.raises(OSError):  # noqa: PT011 (any of its kind is what callers catch)
        await Engine(port=port).get("/", timeout_s=0.5)
