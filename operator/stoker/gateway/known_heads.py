"""Has such a head been read before?

A client sends the same head with each request, but for the length of the body. What it says and what
follows from it (the path's endpoint, the head for the engine) is worked out once for all heads that
are alike in every other byte; with a client library's twenty headers that is much of a request's work.

Only heads that were read without fault are remembered, so what is malformed is refused every time.
Two heads that differ in the digits of one well-formed `Content-Length` alone are equally well-formed.
"""

import re

from stoker.gateway.endpoints import check, endpoint_of
from stoker.gateway.errors import Rejection
from stoker.gateway.request_head import RequestHead, parse_head, request_id
from stoker.gateway.wishes import read_wishes

_MOST_HEADS = 512
_LONGEST_BYTES = 4096
_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([0-9]{1,15})\r\n")


class KnownHead:
    """A head, and what follows from it; shared by requests, so nobody changes it."""

    __slots__ = (
        "endpoint",
        "for_engine",
        "for_engine_without_key",
        "head",
        "rejection",
        "request_id",
        "traceparent",
        "wishes",
    )

    def __init__(self, head: RequestHead) -> None:
        headers = head.headers
        self.head = head
        self.endpoint = endpoint_of(head.path)
        self.rejection = check(head, self.endpoint)
        """What is wrong with a request that would be relayed, as far as the head tells."""
        host = b"" if b"host" in headers else b"host: stoker\r\n"
        first = b"POST %b HTTP/1.1\r\n%b" % (head.target, host)
        self.for_engine = first + b"".join(head.lines)
        """The head for the engine, but for what is each request's own."""
        self.for_engine_without_key = first + b"".join(head.lines_without_key())
        self.request_id = request_id(head)
        self.wishes = read_wishes(headers)
        self.traceparent = headers.get(b"traceparent", b"").decode("latin-1")


class KnownHeads:
    """The heads that were read lately."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes | tuple[bytes, bytes], KnownHead] = {}

    def read(self, data: bytes) -> tuple[KnownHead, int] | Rejection:
        """One whole head, and the length of the body that it announces."""
        found = _LENGTH.search(data)
        key: bytes | tuple[bytes, bytes] = data
        if found is not None:
            start, end = found.span(1)
            key = (data[:start], data[end:])
        known = self._known.get(key)
        if known is not None:
            return known, int(found[1]) if found is not None else known.head.content_length or 0
        head = parse_head(data)
        if isinstance(head, Rejection):
            return head
        known = KnownHead(head)
        if len(data) <= _LONGEST_BYTES:
            if len(self._known) >= _MOST_HEADS:
                self._known.clear()
            self._known[key] = known
        return known, head.content_length or 0
