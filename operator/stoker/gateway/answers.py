"""What bytes does the client get before and around the engine's own?

The head of an answer is the engine's, without what was meant for the connection to this gateway, and
with what only this gateway knows: who answered, and how the body ends here.
"""

import json
from http import HTTPStatus
from typing import Final

from stoker.gateway.errors import Code, Rejection

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
    for status in HTTPStatus
    if status >= 200
}
# Proxies on the way must not hold events back.
_FOR_STREAMS = b"cache-control: no-cache\r\nx-accel-buffering: no\r\n"
_CHUNKED = b"transfer-encoding: chunked\r\n"
_CLOSE = b"connection: close\r\n"


def frame(data: bytes) -> bytes:
    """One chunk of a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def status_line(status: int) -> bytes:
    """The first line of an answer."""
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status


def response_head(
    *, status: int, lines: list[bytes], identity: bytes, events: bool, chunked: bool, close: bool
) -> bytes:
    """Head of an answer that an engine gave; `identity` holds the lines that say who answered."""
    return b"%b%b%b%b%b%b\r\n" % (
        _STATUS_LINES.get(status) or status_line(status),
        b"".join(lines),
        identity,
        _FOR_STREAMS if events else b"",
        _CHUNKED if chunked else b"",
        _CLOSE if close else b"",
    )


def own_answer(
    body: bytes, *, status: int, request_id: bytes, more: bytes = b"", close: bool, head_only: bool = False
) -> bytes:
    """An answer of this gateway itself."""
    return b"%bcontent-type: application/json\r\ncontent-length: %d\r\n%b%b%b\r\n%b" % (
        status_line(status),
        len(body),
        b"x-request-id: %b\r\n" % request_id if request_id else b"",
        more,
        _CLOSE if close else b"",
        b"" if head_only else body,
    )


def rejection_answer(
    rejection: Rejection, *, request_id: bytes, close: bool, head_only: bool = False
) -> bytes:
    """The answer to a request that is not served."""
    more = b""
    if rejection.retry_after is not None:
        more = b"retry-after: %d\r\n" % rejection.retry_after
    if rejection.code is Code.METHOD_NOT_ALLOWED:
        more += b"allow: POST\r\n"
    elif rejection.code is Code.UNAUTHORIZED:
        more += b"www-authenticate: Bearer\r\n"
    return own_answer(
        rejection.body(),
        status=rejection.status,
        request_id=request_id,
        more=more,
        close=close,
        head_only=head_only,
    )


def models_answer(
    models: list[dict[str, object]], *, request_id: bytes, close: bool, head_only: bool
) -> bytes:
    """The answer to `/v1/models`."""
    body = json.dumps({"object": "list", "data": models}).encode()
    return own_answer(body, status=200, request_id=request_id, close=close, head_only=head_only)
