"""An engine that does what a test says, on a real socket."""

import asyncio
import json

import httptools

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
LAST_CHUNK = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"
JUNK = b"SSH-2.0-OpenSSH_9.2\r\n"


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(content):
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


def token(text="x"):
    return event({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]})


def usage(prompt=7, completion=3, cached=0):
    figures = {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}
    if cached:
        figures["prompt_tokens_details"] = {"cached_tokens": cached}
    return event({"object": "chat.completion.chunk", "choices": [], "usage": figures})


def error(message="Internal server error", code=500):
    return (
        b"data: " + json.dumps({"error": {"message": message, "type": "x", "code": code}}).encode() + b"\n\n"
    )


class EngineSide(asyncio.Protocol):
    """One connection from the gateway, and the request on it."""

    def __init__(self, engine):
        self.engine = engine
        self.parser = httptools.HttpRequestParser(self)
        self.lost = asyncio.Event()
        self.requests = 0

    def connection_made(self, transport):
        self.transport = transport
        self.engine.connections.append(self)

    def connection_lost(self, exc):
        self.lost.set()

    def data_received(self, data):
        self.parser.feed_data(data)

    def on_message_begin(self):
        self.head = {}
        self.raw_headers = []
        self.body = b""

    def on_url(self, url):
        self.url = url

    def on_header(self, name, value):
        self.head[name.lower()] = value
        self.raw_headers.append((name, value))

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        self.requests += 1
        self.engine.received += 1
        if self.engine.script is not None:
            self.engine.script(self)
        else:
            self.engine.arrived.put_nowait(self)

    @property
    def json(self):
        return json.loads(self.body)

    def write(self, data):
        self.transport.write(data)

    def answer(self, body=b'{"ok":true}', *, status=200, headers=(), reason="OK"):
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n%b"
            % (status, reason.encode(), lines, len(body), body)
        )

    def begin(self):
        self.write(HEAD)

    def send(self, *events):
        """Events, each a chunk of its own, as uvicorn writes them."""
        for each in events:
            self.write(chunk(each))

    def end(self):
        self.write(chunk(DONE) + LAST_CHUNK)

    def stream(self, *events):
        self.begin()
        self.send(*events)
        self.end()

    def close(self):
        self.transport.close()

    def die(self):
        self.transport.abort()


class ScriptedEngine:
    """Hands each request to the test, or to `script`."""

    def __init__(self):
        self.arrived = asyncio.Queue()
        self.connections = []
        self.received = 0
        self.script = None

    async def __aenter__(self):
        self.server = await asyncio.get_running_loop().create_server(lambda: EngineSide(self), "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info):
        await self.kill()

    async def kill(self):
        self.server.close()
        for connection in self.connections:
            connection.die()
        await asyncio.sleep(0)

    async def request(self):
        """The next request that arrives here."""
        async with asyncio.timeout(5):
            return await self.arrived.get()
