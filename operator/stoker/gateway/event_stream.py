"""Which events of an engine's stream does the client get?

All of them, as they are, but two kinds. The event with the figures of usage that this gateway asked
for and the client did not: it would be one with no choices, which some clients trip over. And
whatever follows an error event: vLLM 0.32 ends the streams of a dying process with an error and then
`[DONE]`, with which they would look complete.

Only whole events leave here, so the client always stands between two events, and an error event can
be added at any time. An event too big to hold goes on in parts.

Rejected: relaying the engine's chunks untouched (an event can be cut anywhere between two reads, and
then can't be left out any more); decoding each event (see `usage`).
"""

import json
from typing import Final

from stoker.gateway.usage import Usage, has_usage, read_usage

_MOST_HELD_BYTES = 256 * 1024
_ERROR_STARTS = (b'data: {"error"', b'data: {"object":"error"', b"event: error")
_DONE: Final = b"data: [DONE]"
_LONGEST_DONE_BYTES = len(_DONE + b"\r\n\r\n")


class EventStream:
    """One answer as a stream of server-sent events."""

    __slots__ = ("_drops_usage", "_end", "_held", "done", "error", "events", "mid_event", "usage")

    def __init__(self, *, drops_usage: bool) -> None:
        self._drops_usage = drops_usage
        self._end = b""
        """What ends an event; known with the first."""
        self._held = b""
        """The beginning of an event that is not complete yet."""
        self.events = 0
        """Events that carried JSON, neither error nor dropped."""
        self.error: bytes | None = None
        """JSON of the error event; None while there was none."""
        self.done = False
        """Whether the last event says that the stream is complete."""
        self.mid_event = False
        """Whether the client has got a part of an event."""
        self.usage: Usage | None = None

    def take(self, data: bytes) -> bytes:
        """What the client gets of the next bytes from the engine."""
        if self.error is not None:
            return b""
        if self._held:
            data = self._held + data
            self._held = b""
        end = self._end or self._find_end(data)
        if not data.endswith(end):
            cut = data.rfind(end)
            if cut >= 0:
                cut += len(end)
                data, self._held = data[:cut], data[cut:]
            else:
                data, self._held = b"", data
            if len(self._held) > _MOST_HELD_BYTES:
                data += self._held
                self._held = b""
                self.mid_event = True
                return data
            if not data:
                return b""
        events = data.count(b"data: {")
        if events > 1 or data.startswith(_ERROR_STARTS) or has_usage(data):
            data = self._take_each(data, end)
        else:
            self.events += events
        self.done = _DONE in data[-_LONGEST_DONE_BYTES:]
        self.mid_event = False
        return data

    def rest(self) -> bytes:
        """What is left at the end of the answer: an event without its empty line."""
        held, self._held = self._held, b""
        return held if self.error is None else b""

    def _find_end(self, data: bytes) -> bytes:
        line_end = data.find(b"\n")
        if line_end < 0:
            return b"\n\n"
        self._end = b"\r\n\r\n" if data[line_end - 1 : line_end] == b"\r" else b"\n\n"
        return self._end

    def _take_each(self, data: bytes, end: bytes) -> bytes:
        kept = []
        for event in data.split(end)[:-1]:
            if event.startswith(_ERROR_STARTS):
                self.error = event[event.find(b"{") :] if b"{" in event else b"{}"
                kept.append(event)
                break
            if has_usage(event):
                self.usage = read_usage(event) or self.usage
                if self._drops_usage and _has_no_choices(event):
                    continue
            self.events += event.count(b"data: {", 0, 64)
            kept.append(event)
        return b"".join([event + end for event in kept])


def _has_no_choices(event: bytes) -> bool:
    try:
        content = json.loads(event[event.find(b"{") :])
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("choices") == []
