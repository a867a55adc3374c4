import asyncio
import contextlib
import json

import pytest

from stoker_serving.probes import ProbeServer


@pytest.fixture
async def port():
    server = ProbeServer({"/readyz": lambda: (False, {"stage": "Loading"}), "/livez": lambda: (True, {})})
    port = await server.start(0)
    yield port
    await server.stop()


async def ask(port, request):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(-1), 10)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0].decode(), json.loads(body)


@pytest.mark.parametrize(
    ("request_line", "status", "document"),
    [
        ("GET /livez HTTP/1.1", "HTTP/1.1 200 OK", {}),
        ("GET /readyz HTTP/1.1", "HTTP/1.1 503 Service Unavailable", {"stage": "Loading"}),
        ("GET /readyz?verbose HTTP/1.1", "HTTP/1.1 503 Service Unavailable", {"stage": "Loading"}),
        ("GET /nothing HTTP/1.1", "HTTP/1.1 404 Not Found", {"paths": ["/livez", "/readyz"]}),
        ("POST /livez HTTP/1.1", "HTTP/1.1 404 Not Found", {"paths": ["/livez", "/readyz"]}),
        ("nonsense", "HTTP/1.1 404 Not Found", {"paths": ["/livez", "/readyz"]}),
    ],
)
async def test_answers_by_path(port, request_line, status, document):
    assert await ask(port, f"{request_line}\r\nHost: x\r\n\r\n".encode()) == (status, document)


async def test_a_caller_that_leaves_early_or_says_too_much_disturbs_nobody(port):
    _, leaves = await asyncio.open_connection("127.0.0.1", port)
    leaves.write(b"GET /li")
    leaves.close()
    reader, floods = await asyncio.open_connection("127.0.0.1", port)
    floods.write(b"x" * 200_000)
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(-1), 10)
    floods.close()
    assert (await ask(port, b"GET /livez HTTP/1.1\r\n\r\n"))[1] == {}
