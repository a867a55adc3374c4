"""A gateway on a real socket, and clients of it."""

import asyncio
import json
import random
from dataclasses import dataclass, field

from stoker.gateway.data_path import DataPath, Limits
from stoker.gateway.listener import Listener
from stoker.gateway.table import InstanceState, RoutingTable, ServiceState

CHAT = "/v1/chat/completions"


async def until(condition):
    """Wait for something that other callbacks bring about."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - any state, without an event for each
            await asyncio.sleep(0.001)


def post(body, *, path=CHAT, headers=(), version="1.1", content_type="application/json", framed=True):
    """A whole request."""
    if isinstance(body, dict):
        body = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/{version}", "Host: gateway", f"Content-Type: {content_type}", *headers]
    if framed:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chat(*, stream=False, model="chat", **fields):
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], **fields}
    return body | {"stream": True} if stream else body


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes = b""
    complete: bool = False
    """Whether the body has ended as its framing promises."""
    chunks: list[bytes] = field(default_factory=list)

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    @property
    def events(self):
        return [e + b"\n\n" for e in self.body.split(b"\n\n")[:-1]]


class Client:
    """Speaks bytes, and reads answers to the letter."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    def send(self, data):
        self.writer.write(data)

    async def head(self):
        async with asyncio.timeout(10):
            raw = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = raw[:-4].split(b"\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(b": ")
            assert name.decode().lower() not in headers, name
            headers[name.decode().lower()] = value.decode("latin-1")
        return Response(int(first.split()[1]), headers)

    async def piece(self):
        """The next chunk; empty for the last one."""
        async with asyncio.timeout(10):
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            data = await self.reader.readexactly(size + 2)
        assert data.endswith(b"\r\n")
        return data[:-2]

    async def response(self, *, head_only=False):
        response = await self.head()
        if head_only:
            return response
        try:
            if "content-length" in response.headers:
                assert "transfer-encoding" not in response.headers
                async with asyncio.timeout(10):
                    response.body = await self.reader.readexactly(int(response.headers["content-length"]))
                response.complete = True
            elif response.headers.get("transfer-encoding") == "chunked":
                while piece := await self.piece():
                    response.chunks.append(piece)
                    response.body += piece
                response.complete = True
            else:
                async with asyncio.timeout(10):
                    response.body = await self.reader.read()
                response.complete = response.headers.get("connection") == "close"
        except (asyncio.IncompleteReadError, ConnectionResetError) as broken:
            response.body += getattr(broken, "partial", b"")
        return response

    async def ask(self, *args, **kwargs):
        self.send(post(*args, **kwargs))
        return await self.response()

    async def is_closed(self):
        async with asyncio.timeout(10):
            try:
                return await self.reader.read() == b""
            except ConnectionResetError:
                return True

    def leave(self):
        self.writer.transport.abort()


class Gateway:
    """The data path with a table that the test fills; checks at its end that nothing is left over."""

    def __init__(self, *, tls=None, client_tls=None, **limits):
        self.limits = Limits(**limits)
        self.tls = tls
        self.client_tls = client_tls
        self.records = []
        self.woken = []
        self.clients = []
        self.instances = []
        self.errors = []
        self.now_s = None

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: self.errors.append(context))
        self.table = RoutingTable(draw=random.Random(1).random, on_wake=self.woken.append)
        self.data_path = DataPath(table=self.table, limits=self.limits, on_end=self.records.append)
        self.listener = Listener(self.data_path)
        self.port = await self.listener.open("127.0.0.1", 0, tls=self.tls)
        return self

    async def __aexit__(self, *exc_info):
        for client in self.clients:
            client.leave()
        if exc_info[0] is None:
            await until(lambda: not self.data_path.clients)
            assert [i for i in self.instances if i.in_flight] == []
            assert [s for s in self.table.services.values() if s.queue.queued] == []
            ids = [r.request_id for r in self.records]
            assert len(set(ids)) == len(ids)
        await self.listener.drain(0)
        assert self.errors == []

    async def serve(self, *engines, name="chat", capacity=8, leaving=(), **fields):
        """The service `name` has these engines as its instances."""
        fields.setdefault("models", (name,))
        state = ServiceState(
            namespace="demo",
            name=name,
            created="2026-01-01T00:00:00Z",
            capacity=capacity,
            instances=tuple(
                InstanceState(
                    name=f"{name}-{engine.port}",
                    host="127.0.0.1",
                    port=engine.port,
                    revision="r1",
                    model_version="v7",
                    leaving=engine in leaving,
                )
                for engine in engines
            ),
            **fields,
        )
        others = [s.state for s in self.table.services.values() if s.name != name]
        changes = self.table.update([*others, state], replicas=1, now_s=self.data_path.clock())
        self.instances += changes.new
        return changes

    async def client(self):
        connect = asyncio.open_connection("127.0.0.1", self.port, ssl=self.client_tls)
        client = Client(*await connect)
        self.clients.append(client)
        return client

    async def ask(self, *args, **kwargs):
        return await (await self.client()).ask(*args, **kwargs)

    async def record(self):
        """The record of the only request so far."""
        await until(lambda: self.records)
        assert len(self.records) == 1
        return self.records[0]
