"""What does the head of a request say, and is it one that every server reads alike?

Smuggling needs two servers that see different requests in the same bytes. So what is read here is
what is sent on, by a head written anew, and a head that anybody could read in a second way is
refused: the connection closes after the answer, because where the next request begins is in doubt.

httptools (llhttp, strict) refuses by itself: a bare CR or LF, folded lines, whitespace around a
header's name, bytes below 0x20 in values, a `Content-Length` that is repeated, signed, a list, empty
or too big, `Content-Length` together with `Transfer-Encoding`, codings after `chunked`, and chunk
sizes that are not plain hexadecimal. It accepts, so this module refuses: HTTP/0.9 and 2.0, the names
of other protocols (RTSP, ICE), codings before `chunked`, `chunked` in HTTP/1.0, several `Host`s or
none, a target that is not a path or URL, several spaces in the request line.

`Upgrade` is ignored, as RFC 9110 (section 7.8) allows: Java's own client offers h2c with each request.
"""

import re
from typing import Final

import httptools

from stoker.gateway.errors import Code, Rejection

MOST_HEAD_BYTES: Final = 32 * 1024
MOST_HEADERS: Final = 128

_REQUEST_LINE = re.compile(
    rb"([A-Z]{1,16}) (?:https?://[!-.0->@-~]{1,255}(?=[/ ?]))?((?:[/?][!-\"$-~]*)?|\*) HTTP/1\.([01])\r\n"
)
_BARE_LF = re.compile(rb"(?<!\r)\n")
_EMPTY_LINES = re.compile(rb"(?:\r\n)++")
_REQUEST_ID = re.compile(rb"[!-~]{1,128}")

# Meant for this connection, or written anew; the engine's answer must not be compressed, or
# nobody here could read it.
_NOT_SENT_ON = frozenset(
    {
        b"accept-encoding",
        b"connection",
        b"content-length",
        b"expect",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"traceparent",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"x-request-id",
        b"x-stoker-in-flight",
    }
)
_ONLY_ONCE = frozenset({b"content-length", b"content-type", b"expect", b"host", b"transfer-encoding"})
_PLAIN_CONNECTION = frozenset({b"keep-alive", b"Keep-Alive"})
_NEEDED = frozenset({b"content-type", b"host"})


class RequestHead:
    """The request line and the headers."""

    __slots__ = (
        "chunked",
        "content_length",
        "expects_continue",
        "headers",
        "http_1_0",
        "keep_alive",
        "lines",
        "method",
        "path",
        "target",
    )

    def __init__(self) -> None:
        self.method = ""
        self.target = b""
        """Path and query."""
        self.path = ""
        """Path without the query."""
        self.http_1_0 = False
        self.headers: dict[bytes, bytes] = {}
        """By name in lower case; the values of a repeated header are joined (RFC 9110, section 5.2)."""
        self.lines: list[bytes] = []
        """The headers that the engine gets, each a line with its end."""
        self.content_length: int | None = None
        """None if the request does not say; then it has no body, unless it is chunked."""
        self.chunked = False
        self.keep_alive = True
        """Whether the client lets the connection go on after the answer."""
        self.expects_continue = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser has read a header."""
        lower = name.lower()
        if lower not in _NOT_SENT_ON:
            self.lines.append(b"%b: %b\r\n" % (name, value))
        headers = self.headers
        if lower in headers:
            if lower in _ONLY_ONCE:
                raise ValueError(lower)
            value = headers[lower] + b", " + value
        headers[lower] = value

    def lines_without_key(self) -> list[bytes]:
        """The same without the client's API key, which is nothing for an engine to know."""
        return [line for line in self.lines if line[:14].lower() != b"authorization:"]


def without_empty_lines(received: bytes) -> bytes:
    """The same from its first line on: empty ones before a request mean nothing (RFC 9112, section 2.2)."""
    if not received.startswith(b"\r\n"):
        return received
    empty = _EMPTY_LINES.match(received)
    return received[empty.end() :] if empty is not None else received


def find_end(received: bytes) -> int | Rejection:
    """Where the head ends, after its empty line; 0 if more must come first."""
    end = received.find(b"\r\n\r\n") + 4
    if end == 3:
        if _BARE_LF.search(received):
            return _malformed("a line that ends without a carriage return")
        end = 0
    if end > MOST_HEAD_BYTES or (not end and len(received) > MOST_HEAD_BYTES):
        return Rejection(
            code=Code.HEADERS_TOO_LARGE,
            message=f"The request's headers are over the limit of {MOST_HEAD_BYTES} bytes; send fewer.",
        )
    return end


def parse_head(data: bytes) -> RequestHead | Rejection:
    """Read one whole head, its empty line included."""
    if data.count(b"\r\n") > MOST_HEADERS + 2:
        return Rejection(
            code=Code.HEADERS_TOO_LARGE,
            message=f"The request has more than {MOST_HEADERS} headers; send fewer.",
        )
    line = _REQUEST_LINE.match(data)
    if line is None:
        return _malformed("a request line that is not `METHOD /path HTTP/1.1`")
    head = RequestHead()
    parser = httptools.HttpRequestParser(head)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass  # The head was read to its end; what is offered there is declined by doing nothing.
    except httptools.HttpParserCallbackError as error:
        return _malformed(f"the header `{_shown(error.__context__)}` more than once")
    except httptools.HttpParserError as error:
        return _malformed(str(error).replace("`", "'") or "bytes that are no header")
    method, target, minor = line.groups()
    head.method = method.decode()
    head.target = target if target[:1] in (b"/", b"*") else b"/" + target
    head.path = head.target.partition(b"?")[0].decode()
    head.http_1_0 = minor == b"0"
    return _read_framing(head) or head


def _read_framing(head: RequestHead) -> Rejection | None:
    headers = head.headers
    if b"host" not in headers and not head.http_1_0:
        return _malformed("no `Host` header")
    length = headers.get(b"content-length")
    if length is not None:
        head.content_length = int(length)
    coding = headers.get(b"transfer-encoding")
    if coding is not None:
        if coding.strip(b" \t").lower() != b"chunked":
            return _malformed("a `Transfer-Encoding` other than `chunked`")
        if head.http_1_0:
            return _malformed("`Transfer-Encoding` in HTTP/1.0")
        head.chunked = True
    connection = headers.get(b"connection")
    # An HTTP/1.0 client gets an answer that ends with the connection.
    head.keep_alive = not head.http_1_0
    if connection is not None and connection not in _PLAIN_CONNECTION:
        _obey_connection(head, connection)
    expect = headers.get(b"expect")
    head.expects_continue = expect is not None and expect.lower() == b"100-continue" and not head.http_1_0
    return None


def _obey_connection(head: RequestHead, connection: bytes) -> None:
    """Keep from the engine what the client named as meant for this connection (RFC 9110, section 7.6.1)."""
    options = {option.strip(b" \t") for option in connection.lower().split(b",")}
    if b"close" in options:
        head.keep_alive = False
    head.lines = [line for line in head.lines if line.partition(b":")[0].lower() not in options - _NEEDED]


def request_id(head: RequestHead) -> bytes | None:
    """The client's own `x-request-id`, if it can be sent on."""
    given = head.headers.get(b"x-request-id")
    return given if given is not None and _REQUEST_ID.fullmatch(given) else None


def _malformed(found: str) -> Rejection:
    return Rejection(
        code=Code.INVALID_REQUEST,
        message=f"The request is not valid HTTP/1.1: {found}. Use an HTTP client library.",
    )


def _shown(error: BaseException | None) -> str:
    return error.args[0].decode() if isinstance(error, ValueError) else "?"
