import asyncio
import base64
from urllib.parse import urlsplit

import pytest

from stoker.fetch.guard import AddressGuard
from stoker.fetch.tunnel import GuardedTunnel


@pytest.fixture
async def echo():
    """A server that sends back what it gets, and the port it listens on."""

    async def answer(reader, writer):
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest.fixture
async def tunnel():
    tunnel = GuardedTunnel(AddressGuard(allow_internal=True))
    yield tunnel
    await tunnel.close()


async def ask(tunnel, request: str, *, password: str | None = None, send: bytes = b"") -> bytes:
    """Everything the tunnel answers to a request with its own (or another) password."""
    url = urlsplit(await tunnel.url())
    token = base64.b64encode(f"stoker:{password or url.password}".encode()).decode()
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(f"{request} HTTP/1.1\r\nProxy-Authorization: Basic {token}\r\n\r\n".encode() + send)
    writer.write_eof()
    async with asyncio.timeout(5):
        answer = await reader.read()
    writer.close()
    return answer


async def test_bytes_pass_both_ways(tunnel, echo):
    answer = await ask(tunnel, f"CONNECT 127.0.0.1:{echo}", send=b"hello")
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\nhello"


@pytest.mark.parametrize(
    ("request_line", "password"),
    [
        pytest.param("CONNECT 127.0.0.1:{port}", "guessed", id="another password"),
        pytest.param("GET http://127.0.0.1:{port}/", None, id="a request that is not a tunnel"),
        pytest.param("CONNECT 127.0.0.1", None, id="no port"),
    ],
)
async def test_nothing_else_passes(tunnel, echo, request_line, password):
    answer = await ask(tunnel, request_line.format(port=echo), password=password)
    assert answer.startswith(b"HTTP/1.1 403 ")


async def test_the_refusal_is_kept_for_whoever_asks_why(echo):
    tunnel = GuardedTunnel(AddressGuard(allow_internal=False))
    answer = await ask(tunnel, f"CONNECT 127.0.0.1:{echo}")
    await tunnel.close()
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert "127.0.0.1 has the internal address" in str(tunnel.refusal)


async def test_a_server_that_is_not_there_is_no_refusal(tunnel):
    assert (await ask(tunnel, "CONNECT 127.0.0.1:1")).startswith(b"HTTP/1.1 502 ")
    assert tunnel.refusal is None


async def test_closing_cuts_what_is_open(tunnel, echo):
    url = urlsplit(await tunnel.url())
    token = base64.b64encode(f"stoker:{url.password}".encode()).decode()
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(f"CONNECT 127.0.0.1:{echo} HTTP/1.1\r\nProxy-Authorization: Basic {token}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    await tunnel.close()
    async with asyncio.timeout(5):
        assert await reader.read() == b""
    writer.close()
