"""Stands in front of the engine inside its server processes: counts requests, and refuses them early.

vLLM answers a stream that it refuses with 200 and an error inside the stream, and after SIGTERM it
answers 500. Here a refusal is a real 429 or 503 with `Retry-After`, before anything was sent, for
streams as well. A request counts as in flight from its arrival to the end of its response, so a stream
counts as long as it runs, and a client that leaves ends its request.

Each answer says in `x-stoker-in-flight` how many requests the instance works on at that moment, its own
among them. A gateway subtracts those that it sent itself, and so knows what the other gateway replicas
have there.

The engine gets this class by `--middleware stoker_serving.middleware.Admission`. The supervisor and
it share `shared_state`. Starlette makes one `Admission` in each server process.
"""

import json
import math
import os
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from stoker_serving.shared_state import PATH_VARIABLE, SharedState

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_WITHOUT_MODEL = frozenset(
    {
        "/tokenize",
        "/detokenize",
        "/ping",
        "/v1/messages/count_tokens",
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter",
    }
)
_WITHOUT_MODEL_ENDS = ("/render", "/derender", "/cancel", "/abort_requests")
_IN_FLIGHT = b"x-stoker-in-flight"
_TRY_AGAIN_LATER = 1013  # RFC 6455, registry of close codes
_DURATION_WEIGHT = 0.1
_LONGEST_WAIT_S = 60


class Admission:
    """ASGI middleware; see the module."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._state = SharedState(Path(os.environ[PATH_VARIABLE]))
        self._slot = self._state.claim()
        self._limit = self._state.max_requests
        self._mean_duration_s = 1.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        if not _needs_model(scope):
            await self._app(scope, receive, send)
            return
        if self._state.refusing:
            await _refuse(
                scope,
                send,
                status=503,
                code="draining",
                message="This instance is shutting down. Send the request again; another one takes it.",
                retry_after_s=1,
            )
            return
        if self._limit is not None and self._state.in_flight >= self._limit:
            await _refuse(
                scope,
                send,
                status=429,
                code="instance_full",
                message=f"This instance runs {self._limit} requests, the most it takes. Try again later.",
                retry_after_s=self._wait_for_a_place_s(self._limit),
            )
            return
        self._slot.started()
        began_s = time.monotonic()
        try:
            await self._app(scope, receive, self._watch(send))
        finally:
            self._slot.finished()
            lasted_s = time.monotonic() - began_s
            self._mean_duration_s += _DURATION_WEIGHT * (lasted_s - self._mean_duration_s)

    def _wait_for_a_place_s(self, limit: int) -> int:
        """With `limit` requests running, one ends every mean duration / limit seconds."""
        return min(max(math.ceil(self._mean_duration_s / max(limit, 1)), 1), _LONGEST_WAIT_S)

    def _watch(self, send: Send) -> Send:
        """Notes every piece of an answer; errors and keep-alive comments are not the model's work."""
        good = False

        async def watched(message: Message) -> None:
            nonlocal good
            kind = message["type"]
            if kind == "http.response.body":
                body = message.get("body", b"")
                if good and body and not body.startswith(b":"):
                    self._slot.token()
            elif kind == "http.response.start":
                good = message["status"] < 400
                headers = [*message.get("headers", ()), (_IN_FLIGHT, b"%d" % self._state.in_flight)]
                if self._state.leaving:
                    # The client's next request on this connection might be refused.
                    headers.append((b"connection", b"close"))
                message["headers"] = headers
            elif kind == "websocket.send":
                self._slot.token()
            await send(message)

        return watched


def _needs_model(scope: Scope) -> bool:
    if scope["type"] == "websocket":
        return True
    if scope["type"] != "http" or scope["method"] != "POST":
        return False
    path: str = scope["path"]
    return path not in _WITHOUT_MODEL and not path.endswith(_WITHOUT_MODEL_ENDS)


async def _refuse(
    scope: Scope, send: Send, *, status: int, code: str, message: str, retry_after_s: int
) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER, "reason": code})
        return
    kind = "rate_limit_error" if status == 429 else "service_unavailable_error"
    body = json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"retry-after", b"%d" % retry_after_s),
    ]
    if status == 503:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
