"""What does the engine's answer mean, and what of it does the client get?

The head is held until there is something to send behind it: vLLM says 200 before it has begun. Until
then another instance can be asked, and the client never knows. Where its queue is full, vLLM 0.32
refuses a request that comes alone with 503, but those that come together with 200 and an error as the
first event; both are refusals here.

A stream is sent in chunks of our own, one for each read. Any other answer goes on as it came, byte
for byte, with its length if the engine gave one.
"""

import json
from collections.abc import Sequence

from stoker.gateway.answers import LAST_CHUNK, frame, response_head
from stoker.gateway.event_stream import EventStream
from stoker.gateway.usage import Usage, UsageSearch

# Of those that are read here, the type of the body goes on to the client; its length and what is
# said about caching only where the answer is not a stream.
_READ_HERE = frozenset(
    {
        b"cache-control",
        b"connection",
        b"content-length",
        b"content-type",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"x-accel-buffering",
        b"x-request-id",
        b"x-stoker-in-flight",
    }
)
_WITHOUT_BODY = frozenset({204, 304})
_MOST_ERROR_BYTES = 16 * 1024
_NO_MEMORY = b"out of memory"


class EngineAnswer:
    """One engine's answer to one request."""

    __slots__ = (
        "_error",
        "_held",
        "_lines",
        "_search",
        "begun",
        "chunked",
        "in_flight",
        "status",
        "stream",
    )

    def __init__(
        self, *, status: int, headers: Sequence[tuple[bytes, bytes]], drops_usage: bool, http_1_0: bool
    ) -> None:
        self.status = status
        self._held = b""
        self._error = b""
        self._search = UsageSearch()
        self.stream: EventStream | None = None
        """None for an answer that is not a stream of events."""
        self.begun = False
        """Whether the client has got anything of it."""
        self.in_flight: int | None = None
        """Requests that the instance works on, if it says so."""
        length = b""
        caching: list[bytes] = []
        lines: list[bytes] = []
        for name, value in headers:
            if name not in _READ_HERE:
                lines += (name, b": ", value, b"\r\n")
            elif name == b"content-length":
                length = value
            elif name == b"content-type":
                lines += (name, b": ", value, b"\r\n")
                if status == 200 and value.startswith(b"text/event-stream"):
                    self.stream = EventStream(drops_usage=drops_usage)
            elif name in (b"cache-control", b"x-accel-buffering"):
                caching += (name, b": ", value, b"\r\n")
            elif name == b"x-stoker-in-flight" and value.isdigit():
                self.in_flight = int(value)
        if self.stream is None:
            lines += caching
            if length:
                lines += (b"content-length: ", length, b"\r\n")
        self._lines = lines
        has_length = bool(length and self.stream is None) or status in _WITHOUT_BODY
        self.chunked = not http_1_0 and not has_length
        """Whether the client gets the body in chunks."""

    def take(self, data: bytes, *, complete: bool) -> bytes:
        """What of the body the client gets now; nothing as long as another instance could be asked."""
        stream = self.stream
        if stream is None:
            self._search.feed(data)
            if self.status >= 400 and len(self._error) < _MOST_ERROR_BYTES:
                self._error += data
            return data
        data = stream.take(data)
        if complete:
            data += stream.rest()
        if not self.begun and not stream.events and not complete:
            # Comments that keep a connection alive prove nothing.
            self._held += data
            return b""
        if self._held:
            data = self._held + data
            self._held = b""
        return data

    def head(self, identity: bytes, *, close: bool) -> bytes:
        """The head for the client."""
        self.begun = True
        return response_head(
            status=self.status,
            lines=self._lines,
            identity=identity,
            events=self.stream is not None,
            chunked=self.chunked,
            close=close,
        )

    def framed(self, data: bytes, *, complete: bool) -> bytes:
        """These bytes of the body, as they go to the client."""
        if not self.chunked:
            return data
        # An empty chunk would be the last one.
        chunk = frame(data) if data else b""
        return chunk + LAST_CHUNK if complete else chunk

    @property
    def error(self) -> bytes | None:
        """JSON of the event with which a stream failed."""
        return None if self.stream is None else self.stream.error

    @property
    def refused(self) -> bool:
        """Whether the stream failed before its first event, so that the client knows nothing of it."""
        return (
            self.error is not None and not self.begun and self.stream is not None and not self.stream.events
        )

    @property
    def done(self) -> bool:
        """Whether the client has got all of a stream; at most the end of its framing is missing."""
        return self.stream is not None and self.stream.done

    @property
    def takes_event(self) -> bool:
        """Whether an event can be added now."""
        return self.stream is not None and not self.stream.mid_event

    @property
    def no_memory(self) -> bool:
        """Whether the engine says that it ran out of memory."""
        return _NO_MEMORY in (self.error or self._error).lower()

    def usage(self) -> Usage | None:
        """The engine's figures; None if they have not come."""
        return self._search.result() if self.stream is None else self.stream.usage


def status_of(error: bytes) -> int:
    """HTTP status that an engine's error event stands for; 503 if it does not say."""
    try:
        content = json.loads(error)
    except (ValueError, RecursionError):
        return 503
    inner = content.get("error", content) if isinstance(content, dict) else {}
    code = inner.get("code") if isinstance(inner, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 503
