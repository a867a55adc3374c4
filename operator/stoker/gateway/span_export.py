"""How do the spans of requests get to a trace collector?

As OTLP over HTTP in its JSON form, in batches, beside the data path: a request costs an append, the
rest is done in short pieces between other work. What the collector does not take in time is lost and
counted; a collector that is away costs memory for 4,096 spans and nothing else.

Rejected: opentelemetry-sdk with its exporter. It makes an object with a lock for each span on the
data path, exports from a thread that fights with the event loop for the interpreter's lock, and
brings protobuf and requests along; what is used of it here is a page of JSON.

Attributes are OpenTelemetry's `gen_ai.*`, `http.*` and `error.type`; ours begin with `stoker.`.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections import deque
from collections.abc import Mapping
from typing import Final

import aiohttp

from stoker.gateway.outcome import Outcome, RequestRecord
from stoker.gateway.traces import Span

_MOST_WAITING = 4096
_BATCH = 256
_EVERY_S = 2.0
_TIMEOUT_S = 10.0
_TRIES = 4
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_TRY_AGAIN: Final = frozenset({429, 502, 503, 504})
"""What OTLP names as worth another try; all else would fail again."""
_AT_ONCE = 16
"""Spans that are encoded before the event loop goes on: 0.5 ms."""
_KIND_SERVER = 2
_STATUS_ERROR = 2
_OPERATIONS: Final = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "text_completion",
    "/v1/embeddings": "embeddings",
}
_OURS_TO_BLAME: Final = frozenset({Outcome.TIMEOUT, Outcome.UPSTREAM_ERROR, Outcome.OUT_OF_MEMORY})
"""For a server's span, what a client did wrong is not an error (HTTP semantic conventions)."""

_encode = json.JSONEncoder(separators=(",", ":")).encode
_log = logging.getLogger(__name__)


class SpanExport:
    """Sends the spans of one gateway replica; `run` it as a task."""

    def __init__(self, session: aiohttp.ClientSession, *, endpoint: str, replica: str) -> None:
        """`endpoint` is the collector's base URL, as in OTEL_EXPORTER_OTLP_ENDPOINT."""
        self._session = session
        self._url = endpoint.rstrip("/") + "/v1/traces"
        resource = {"service.name": "stoker-gateway", "service.instance.id": replica}
        self._before = (
            f'{{"resourceSpans":[{{"resource":{{"attributes":{_encode(_attributes(resource))}}},'
            '"scopeSpans":[{"scope":{"name":"stoker.gateway"},"spans":['
        )
        self._waiting: deque[tuple[RequestRecord, int]] = deque()
        self._enough = asyncio.Event()
        self.exported = 0
        """Spans that the collector took."""
        self.lost = 0
        """Spans that it did not."""

    def add(self, record: RequestRecord) -> None:
        """A request is over."""
        span = record.span
        if span is None or not span.sampled:
            return
        if len(self._waiting) >= _MOST_WAITING:
            self.lost += 1
            return
        self._waiting.append((record, time.time_ns()))
        if len(self._waiting) >= _BATCH:
            self._enough.set()

    async def run(self) -> None:
        """Send what comes, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._enough.wait(), _EVERY_S)
            self._enough.clear()
            await self.flush()

    async def flush(self) -> None:
        """Send all that waits."""
        while self._waiting:
            count = min(_BATCH, len(self._waiting))
            batch = [self._waiting.popleft() for _ in range(count)]
            if await self._send(await self._body(batch)):
                self.exported += count
            else:
                self.lost += count

    async def _body(self, batch: list[tuple[RequestRecord, int]]) -> bytes:
        spans = []
        for n, (record, ended_ns) in enumerate(batch, start=1):
            assert record.span is not None
            spans.append(_encode(span_of(record, record.span, ended_ns=ended_ns)))
            if n % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return f"{self._before}{','.join(spans)}]}}]}}]}}".encode()

    async def _send(self, body: bytes) -> bool:
        pause_s = _FIRST_PAUSE_S
        problem = ""
        for left in reversed(range(_TRIES)):
            status, wait_s, problem = await self._post(body)
            if 200 <= status < 300:
                return True
            if (status and status not in _TRY_AGAIN) or not left:
                break
            await asyncio.sleep(min(wait_s or pause_s, _LONGEST_PAUSE_S))
            pause_s *= 2
        _log.warning("spans were lost", extra={"endpoint": self._url, "error": problem})
        return False

    async def _post(self, body: bytes) -> tuple[int, float, str]:
        """Status, the pause that is asked for, and what went wrong; status 0 if there was no answer."""
        try:
            async with self._session.post(
                self._url,
                data=body,
                headers={"Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
            ) as answer:
                wait = answer.headers.get("Retry-After", "")
                wait_s = float(wait) if wait.isdecimal() else 0.0
                return answer.status, wait_s, f"status {answer.status}"
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return 0, 0.0, repr(error)


def span_of(record: RequestRecord, span: Span, *, ended_ns: int) -> dict[str, object]:
    """The span as OTLP's JSON form has it."""
    operation = _OPERATIONS.get(record.path)
    name = f"{operation} {record.model}" if operation else f"POST {record.path}"
    found: dict[str, object] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": name,
        "kind": _KIND_SERVER,
        "startTimeUnixNano": str(ended_ns - round(record.duration_s * 1e9)),
        "endTimeUnixNano": str(ended_ns),
        "attributes": _attributes(_facts(record, operation)),
        "flags": 1,
    }
    if span.parent_id:
        found["parentSpanId"] = span.parent_id
    if record.outcome in _OURS_TO_BLAME:
        found["status"] = {"code": _STATUS_ERROR}
    return found


def _facts(record: RequestRecord, operation: str | None) -> dict[str, object]:
    """Attributes; those without a value are left out later."""
    failed = record.outcome is not Outcome.OK
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "stoker",
        "gen_ai.request.model": record.model,
        "gen_ai.request.stream": record.streaming,
        "gen_ai.usage.input_tokens": record.prompt_tokens or None,
        "gen_ai.usage.cache_read.input_tokens": record.cached_tokens or None,
        "gen_ai.usage.output_tokens": record.completion_tokens or None,
        "gen_ai.response.time_to_first_chunk": record.first_byte_s if record.streaming else None,
        "url.path": record.path,
        "http.response.status_code": record.status or None,
        "error.type": (record.code or str(record.outcome)) if failed else None,
        "stoker.request_id": record.request_id,
        "stoker.namespace": record.namespace,
        "stoker.service": record.service,
        "stoker.workload": record.workload,
        "stoker.adapter": record.adapter,
        "stoker.revision": record.revision,
        "stoker.model_version": record.model_version,
        "stoker.instance": record.instance,
        "stoker.outcome": str(record.outcome),
        "stoker.queue_time": record.queue_s,
        "stoker.retries": record.retries,
    }


def _attributes(facts: Mapping[str, object]) -> list[dict[str, object]]:
    return [{"key": key, "value": _value(fact)} for key, fact in facts.items() if fact not in (None, "")]


def _value(fact: object) -> dict[str, object]:
    if isinstance(fact, bool):
        return {"boolValue": fact}
    if isinstance(fact, int):
        return {"intValue": str(fact)}
    return {"doubleValue": fact} if isinstance(fact, float) else {"stringValue": fact}
