"""To which trace does a request belong, and which span of it is this gateway's?

W3C Trace Context: the client's `traceparent` names the trace and the client's span. The gateway's
own span is a child of that, and the engine is told the gateway's as its parent. A client that sends
none, or one that can't be read, begins a new trace. Whether a trace is recorded is the parent's
decision where there is one, else chance by the ratio that was asked for.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16
SAMPLED: Final = 0x01


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """What a `traceparent` says."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits: the span of whoever sent it."""
    sampled: bool
    """Whether the trace is recorded."""


class Span:
    """This gateway's part of a trace."""

    __slots__ = ("parent_id", "sampled", "span_id", "trace_id")

    def __init__(self, *, trace_id: str, span_id: str, parent_id: str, sampled: bool) -> None:
        self.trace_id = trace_id
        self.span_id = span_id
        self.parent_id = parent_id
        """The client's span; empty if it named none."""
        self.sampled = sampled

    def traceparent(self) -> str:
        """What the engine is told."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


class Tracing:
    """Begins a span for each request."""

    __slots__ = ("_bits", "_threshold")

    def __init__(self, *, ratio: float, bits: Callable[[int], int]) -> None:
        """Record this share of the traces that begin here; `bits` gives so many bits by chance."""
        self._threshold = round(ratio * (1 << 56))
        self._bits = bits

    def begin(self, traceparent: str) -> Span:
        """The span of a request that came with this `traceparent`, which may be empty."""
        span_id = f"{self._bits(64) or 1:016x}"
        parent = parse_traceparent(traceparent) if traceparent else None
        if parent is not None:
            return Span(
                trace_id=parent.trace_id, span_id=span_id, parent_id=parent.span_id, sampled=parent.sampled
            )
        trace = self._bits(128) or 1
        # The last 56 bits are chance (W3C Trace Context level 2), so all who see the trace decide alike.
        sampled = trace & ((1 << 56) - 1) < self._threshold
        return Span(trace_id=f"{trace:032x}", span_id=span_id, parent_id="", sampled=sampled)


def parse_traceparent(text: str) -> Parent | None:
    """Read it as W3C Trace Context (section 3.2.2) says; None if it is to be ignored.

    Example: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
    """
    found = _TRACEPARENT.fullmatch(text)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or trace_id == _NO_TRACE or span_id == _NO_SPAN or (version == "00" and more):
        return None
    return Parent(trace_id=trace_id, span_id=span_id, sampled=bool(int(flags, 16) & SAMPLED))
