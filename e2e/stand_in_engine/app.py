"""The server's application: which path does what, vLLM's HTTP metrics, and faults of the connection.

`/faults` stands before every middleware, so that a fault can be ended whatever the middleware thinks.
"""

import asyncio
import os
import socket
import struct
import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, Summary
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from e2e.stand_in_engine import asgi, errors, faults
from e2e.stand_in_engine.api import Api
from e2e.stand_in_engine.asgi import App, ClientLeft, Message, Receive, Scope, Send
from e2e.stand_in_engine.engine import Engine
from e2e.stand_in_engine.errors import ApiError
from e2e.stand_in_engine.faults import BadFaults, Faults, Share

_NOT_COUNTED = frozenset({"/metrics", "/health", "/load", "/ping", "/version", "/server_info"})
"""vLLM leaves these out of its HTTP metrics."""
_FEW_BUCKETS = (0.1, 0.5, 1)
_MANY_BUCKETS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5),
    *(4, 4.5, 5, 7.5, 10, 30, 60),
)


class HttpMetrics:
    """vLLM's metrics of HTTP requests (prometheus-fastapi-instrumentator)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "http_requests_total",
            "Total number of requests by method, status and handler.",
            ["handler", "method", "status"],
            registry=registry,
        )
        self._request_bytes = Summary(
            "http_request_size_bytes", "Content length of requests.", ["handler"], registry=registry
        )
        self._response_bytes = Summary(
            "http_response_size_bytes", "Content length of responses.", ["handler"], registry=registry
        )
        self._all_s = Histogram(
            "http_request_duration_highr_seconds",
            "Latency with many buckets.",
            buckets=_MANY_BUCKETS,
            registry=registry,
        )
        self._by_handler_s = Histogram(
            "http_request_duration_seconds",
            "Latency by handler.",
            ["handler", "method"],
            buckets=_FEW_BUCKETS,
            registry=registry,
        )

    def count(self, scope: Scope, *, handler: str, head: Message, seconds: float) -> None:
        """Count one request by the head of its response."""
        method = scope["method"]
        self._requests.labels(handler, method, f"{head['status'] // 100}xx").inc()
        self._request_bytes.labels(handler).observe(int(asgi.header(scope, "content-length") or 0))
        length = next((value for name, value in head["headers"] if name == b"content-length"), b"0")
        self._response_bytes.labels(handler).observe(int(length))
        self._all_s.observe(seconds)
        self._by_handler_s.labels(handler, method).observe(seconds)


class Application:
    """Everything behind the middleware."""

    def __init__(self, *, api: Api, registry: CollectorRegistry, pooling: bool, track_load: bool) -> None:
        self._api = api
        self._registry = registry
        self._http = HttpMetrics(registry)
        self._track_load = track_load
        self._load = 0
        self._errors = Share()
        self._resets = Share()
        if pooling:
            self._model_routes = {"/v1/embeddings": api.embeddings}
        else:
            self._model_routes = {"/v1/chat/completions": api.chat, "/v1/completions": api.completions}
        self._routes: dict[tuple[str, str], App] = {
            ("GET", "/health"): api.health,
            ("GET", "/ping"): api.health,
            ("GET", "/version"): api.version,
            ("GET", "/v1/models"): api.models,
            ("GET", "/load"): self._server_load,
            ("GET", "/metrics"): self._metrics,
            ("POST", "/tokenize"): api.tokenize,
            **{("POST", path): self._use_model for path in self._model_routes},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; uvicorn's announcements of start and end are only acknowledged."""
        if scope["type"] == "lifespan":
            await _acknowledge(receive, send)
            return
        path = scope["path"]
        route = self._routes.get((scope["method"], path))
        started_s = time.perf_counter()
        head: Message = {}

        async def remember(message: Message) -> None:
            if message["type"] == "http.response.start":
                head.update(message)
            await send(message)

        try:
            if route is None:
                await self._no_route(scope, remember)
            else:
                await route(scope, receive, remember)
        except ApiError as error:
            await asgi.answer_json(remember, error.document, status=error.status)
        except ClientLeft:
            return
        if path not in _NOT_COUNTED and head:
            seconds = time.perf_counter() - started_s
            self._http.count(scope, handler=path if route else "none", head=head, seconds=seconds)

    async def _use_model(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Requests that need the model, and with them the faults that a client sees."""
        active = self._api.engine.faults
        if active.hang:
            await _hang(receive)
        if self._resets.hit(active.reset_share):
            _reset(scope)
            await _hang(receive)
        if self._errors.hit(active.error_share):
            raise errors.on_command(active.error_status)
        self._load += 1
        try:
            await self._model_routes[scope["path"]](scope, receive, send)
        finally:
            self._load -= 1

    async def _server_load(self, scope: Scope, receive: Receive, send: Send) -> None:
        await asgi.answer_json(send, {"server_load": self._load if self._track_load else 0})

    async def _metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = generate_latest(self._registry)
        await asgi.answer(send, text, content_type=CONTENT_TYPE_LATEST.encode())

    async def _no_route(self, scope: Scope, send: Send) -> None:
        methods = [method for method, path in self._routes if path == scope["path"]]
        if methods:
            allow = ((b"allow", ", ".join(methods).encode()),)
            await asgi.answer_json(send, {"detail": "Method Not Allowed"}, status=405, extra=allow)
        else:
            await asgi.answer_json(send, {"detail": "Not Found"}, status=404)


class Control:
    """`/faults`, in front of everything else."""

    def __init__(self, app: App, engine: Engine) -> None:
        self._app = app
        self._engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer `/faults`; pass anything else on."""
        if scope["type"] != "http" or scope["path"] != "/faults":
            await self._app(scope, receive, send)
            return
        method = scope["method"]
        try:
            if method == "POST":
                self._engine.set_faults(faults.parse(await asgi.read_body(receive)))
            elif method == "DELETE":
                self._engine.set_faults(Faults())
        except BadFaults as error:
            await asgi.answer_json(send, {"detail": str(error)}, status=400)
            return
        await asgi.answer_json(send, faults.as_json(self._engine.faults))
        if method == "POST" and self._engine.faults.crash_after_tokens == 0:
            await self._engine.crash()


def with_middleware(app: App, classes: list[type[Any]]) -> App:
    """The application inside its middleware; the class given last sees a request first, as in Starlette."""
    for each in classes:
        app = each(app)
    return app


async def _acknowledge(receive: Receive, send: Send) -> None:
    for event in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{event}.complete"})


async def _hang(receive: Receive) -> None:
    """Wait until the client gives up."""
    while (await receive())["type"] != "http.disconnect":
        pass
    raise ClientLeft


def _reset(scope: Scope) -> None:
    """Close the connection with a TCP reset instead of an end."""
    transport: asyncio.Transport = scope["extensions"][asgi.TRANSPORT]["transport"]
    # uvloop's socket object has no setsockopt; an option set by a duplicate holds for both.
    with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
