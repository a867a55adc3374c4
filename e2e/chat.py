"""One streamed chat request, as a client of the OpenAI API sends it, and what it took."""

import contextlib
import http.client
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from e2e.cluster.errors import ClusterError
from e2e.target import Target

_DEADLINE_S = 60
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back."""

    request_id: str
    """The gateway's name for the request; empty if it came from an instance itself."""
    text: str
    model: str
    time_to_first_token_s: float
    """From the request's first byte to the first piece of text."""
    total_s: float
    tokens: int
    """Completion tokens by the engine's own count."""


@contextlib.contextmanager
def port_forward(target: Target, *, namespace: str, service: str) -> Iterator[int]:
    """A port on loopback that leads to a Service; it works on any cluster that kubectl reaches."""
    with subprocess.Popen(
        target.command("port-forward", f"--namespace={namespace}", f"service/{service}", ":80"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as forward:
        try:
            assert forward.stdout is not None
            line = forward.stdout.readline()
            if (found := _FORWARDING.search(line)) is None:
                raise ClusterError(f"kubectl port-forward to service/{service} ended: {line.strip()}")
            yield int(found[1])
        finally:
            forward.terminate()


def ask(port: int, *, model: str, question: str, max_tokens: int, show: Callable[[str], None]) -> Answer:
    """Stream a chat answer from 127.0.0.1, handing each piece of text to `show` as it comes."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_DEADLINE_S)
    started_at = time.monotonic()
    first_token_at: float | None = None
    pieces: list[str] = []
    request_id, answered_by, tokens = "", "", 0
    try:
        connection.request(
            "POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"}
        )
        response = connection.getresponse()
        if response.status != http.HTTPStatus.OK:
            raise ClusterError(f"HTTP {response.status} from {model}: {response.read(2000).decode()}")
        request_id = response.getheader("x-request-id") or ""
        for event in _events(response):
            answered_by = event["model"]
            tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
            for choice in event["choices"]:
                if piece := choice["delta"].get("content"):
                    first_token_at = first_token_at or time.monotonic()
                    pieces.append(piece)
                    show(piece)
    finally:
        connection.close()
    if first_token_at is None:
        raise ClusterError(f"{model} ended its answer without a token")
    return Answer(
        request_id=request_id,
        text="".join(pieces),
        model=answered_by,
        time_to_first_token_s=first_token_at - started_at,
        total_s=time.monotonic() - started_at,
        tokens=tokens,
    )


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """The JSON objects of a server-sent event stream, up to `[DONE]`."""
    for line in response:
        if line.startswith(b"data: "):
            data = line.removeprefix(b"data: ").strip()
            if data == b"[DONE]":
                return
            yield json.loads(data)
    raise ClusterError("the stream ended without [DONE]")
