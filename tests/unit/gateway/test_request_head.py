import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.gateway.errors import Code, Rejection
from stoker.gateway.request_head import MOST_HEAD_BYTES, find_end, parse_head, request_id

HOST = b"Host: a\r\n"


def post(*headers, version=b"1.1"):
    lines = b"".join(h + b"\r\n" for h in headers)
    return b"POST /v1/x HTTP/%b\r\n%b%b\r\n" % (version, HOST, lines)


MALFORMED = [
    pytest.param(post(b"Content-Length: 2", b"Content-Length: 2"), id="Content-Length twice"),
    pytest.param(post(b"Content-Length: 2", b"Content-Length: 3"), id="two different Content-Lengths"),
    pytest.param(post(b"Content-Length: 2, 2"), id="Content-Length as a list"),
    pytest.param(post(b"Content-Length: +2"), id="Content-Length with a plus"),
    pytest.param(post(b"Content-Length: -2"), id="Content-Length with a minus"),
    pytest.param(post(b"Content-Length: 0x2"), id="Content-Length in hexadecimal"),
    pytest.param(post(b"Content-Length: 1 2"), id="Content-Length with a space in it"),
    pytest.param(post(b"Content-Length:"), id="Content-Length empty"),
    pytest.param(post(b"Content-Length: 99999999999999999999999"), id="Content-Length beyond 64 bits"),
    pytest.param(post(b"Content-Length : 2"), id="a space before the colon"),
    pytest.param(
        post(b"Content-Length: 2", b"Transfer-Encoding: chunked"), id="Content-Length, then Transfer-Encoding"
    ),
    pytest.param(
        post(b"Transfer-Encoding: chunked", b"Content-Length: 2"), id="Transfer-Encoding, then Content-Length"
    ),
    pytest.param(post(b"Transfer-Encoding: gzip, chunked"), id="a coding before chunked"),
    pytest.param(post(b"Transfer-Encoding: chunked, gzip"), id="a coding after chunked"),
    pytest.param(post(b"Transfer-Encoding: chunked, chunked"), id="chunked twice in one header"),
    pytest.param(
        post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), id="chunked in two headers"
    ),
    pytest.param(
        post(b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"), id="codings in two headers"
    ),
    pytest.param(post(b"Transfer-Encoding: identity"), id="identity"),
    pytest.param(post(b"Transfer-Encoding: xchunked"), id="almost chunked"),
    pytest.param(post(b'Transfer-Encoding: "chunked"'), id="chunked in quotes"),
    pytest.param(post(b"Transfer-Encoding: \x0bchunked"), id="a vertical tab before chunked"),
    pytest.param(post(b"Transfer-Encoding: chunked", version=b"1.0"), id="chunked in HTTP/1.0"),
    pytest.param(b"POST / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", id="a bare line feed"),
    pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\nX: b\rY: c\r\n\r\n", id="a bare carriage return"),
    pytest.param(post(b"X: b", b" c"), id="a folded line"),
    pytest.param(b"POST / HTTP/1.1\r\n Host: a\r\n\r\n", id="a folded first header"),
    pytest.param(post(b"X: b\x00c"), id="a NUL in a value"),
    pytest.param(post(b"X: b\x01c"), id="a control character in a value"),
    pytest.param(post(b": b"), id="an empty name"),
    pytest.param(post(b"nothing"), id="no colon"),
    pytest.param(post(b"f(o: x"), id="a delimiter in a name"),
    pytest.param(post("fé: x".encode()), id="a name beyond ASCII"),
    pytest.param(post(b"Host: b"), id="Host twice"),
    pytest.param(post(b"Content-Type: a", b"Content-Type: b"), id="Content-Type twice"),
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="no Host"),
    pytest.param(b"GET /\r\n\r\n", id="HTTP/0.9"),
    pytest.param(b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", id="HTTP/2.0"),
    pytest.param(b"PRI * HTTP/2.0\r\n\r\n", id="the preface of HTTP/2"),
    pytest.param(b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", id="HTTP/1.2"),
    pytest.param(b"GET / http/1.1\r\nHost: a\r\n\r\n", id="the protocol in lower case"),
    pytest.param(b"DESCRIBE / RTSP/1.0\r\n\r\n", id="RTSP"),
    pytest.param(b"SOURCE / ICE/1.0\r\n\r\n", id="ICE"),
    pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", id="an answer"),
    pytest.param(b"\x16\x03\x01\x02\x00\x01\r\n\r\n", id="TLS"),
    pytest.param(b"get / HTTP/1.1\r\nHost: a\r\n\r\n", id="a method in lower case"),
    pytest.param(b"FOO / HTTP/1.1\r\nHost: a\r\n\r\n", id="a method that nobody knows"),
    pytest.param(b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", id="CONNECT"),
    pytest.param(b" GET / HTTP/1.1\r\nHost: a\r\n\r\n", id="a space before the method"),
    pytest.param(b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", id="two spaces after the method"),
    pytest.param(b"GET /  HTTP/1.1\r\nHost: a\r\n\r\n", id="two spaces after the target"),
    pytest.param(b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", id="a space after the version"),
    pytest.param(b"GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n", id="tabs"),
    pytest.param(b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", id="a space in the target"),
    pytest.param("GET /é HTTP/1.1\r\nHost: a\r\n\r\n".encode(), id="a target beyond ASCII"),
    pytest.param(b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", id="a fragment"),
    pytest.param(b"GET a/b HTTP/1.1\r\nHost: a\r\n\r\n", id="a target that is no path"),
    pytest.param(b"GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n", id="a URL without a host"),
    pytest.param(b"GET ftp://a/b HTTP/1.1\r\nHost: a\r\n\r\n", id="another scheme"),
]


@pytest.mark.parametrize("data", MALFORMED)
def test_what_could_be_read_in_two_ways_is_refused(data):
    rejection = parse_head(data)
    assert isinstance(rejection, Rejection)
    assert rejection.code is Code.INVALID_REQUEST
    assert rejection.message.startswith("The request is not valid HTTP/1.1: ")


@pytest.mark.parametrize(
    ("target", "expected", "path"),
    [
        pytest.param(b"/v1/x?a=b", b"/v1/x?a=b", "/v1/x", id="a path with a query"),
        pytest.param(b"http://a.b:80/v1/x?y", b"/v1/x?y", "/v1/x", id="a URL"),
        pytest.param(b"http://a.b", b"/", "/", id="a URL without a path"),
        pytest.param(b"https://a.b?y", b"/?y", "/", id="a URL with only a query"),
        pytest.param(b"*", b"*", "*", id="an asterisk"),
        pytest.param(b"//a/v1/x", b"//a/v1/x", "//a/v1/x", id="two slashes are a path"),
    ],
)
def test_targets(target, expected, path):
    head = parse_head(b"OPTIONS %b HTTP/1.1\r\nHost: a\r\n\r\n" % target)
    assert (head.method, head.target, head.path) == ("OPTIONS", expected, path)


@pytest.mark.parametrize(
    ("headers", "version", "expected"),
    [
        pytest.param([b"Content-Length: 2 "], b"1.1", (2, False, True), id="a length with spaces around it"),
        pytest.param([b"Transfer-Encoding: Chunked"], b"1.1", (None, True, True), id="chunked"),
        pytest.param([], b"1.1", (None, False, True), id="no body"),
        pytest.param([b"Connection: Close"], b"1.1", (None, False, False), id="the client closes"),
        pytest.param([b"Connection: foo, close"], b"1.1", (None, False, False), id="close among others"),
        pytest.param([b"Connection: keep-alive"], b"1.0", (None, False, False), id="HTTP/1.0 always closes"),
    ],
)
def test_framing(headers, version, expected):
    head = parse_head(post(*headers, version=version))
    assert (head.content_length, head.chunked, head.keep_alive) == expected


@pytest.mark.parametrize("kind", [b"h2c", b"websocket"])
def test_an_offered_upgrade_is_declined_by_doing_nothing(kind):
    head = parse_head(
        post(
            b"Connection: Upgrade, HTTP2-Settings",
            b"Upgrade: " + kind,
            b"HTTP2-Settings: AAMAAABk",
            b"Content-Length: 5",
            b"X: y",
        )
    )
    assert (head.content_length, head.keep_alive) == (5, True)
    assert head.lines == [b"Host: a\r\n", b"X: y\r\n"]


def test_what_connection_names_is_not_sent_on_but_what_the_engine_needs_is():
    head = parse_head(post(b"Connection: x-hop, host, Content-Type", b"X-Hop: 1", b"Content-Type: a/b"))
    assert head.lines == [b"Host: a\r\n", b"Content-Type: a/b\r\n"]


def test_a_repeated_header_is_sent_on_as_it_is_and_read_as_a_list():
    head = parse_head(post(b"X: 1", b"x: 2"))
    assert head.lines[1:] == [b"X: 1\r\n", b"x: 2\r\n"]
    assert head.headers[b"x"] == b"1, 2"


@pytest.mark.parametrize(
    ("given_id", "expected"),
    [
        pytest.param(b"abc-1", b"abc-1", id="one that can be sent on"),
        pytest.param(b"a b", None, id="with a space"),
        pytest.param(b"x" * 129, None, id="too long"),
        pytest.param("é".encode(), None, id="beyond ASCII"),
    ],
)
def test_request_ids(given_id, expected):
    assert request_id(parse_head(post(b"X-Request-Id: " + given_id))) == expected


def test_too_many_headers_and_too_long_ones_are_refused():
    assert parse_head(post(*[b"X: y"] * 128)).code is Code.HEADERS_TOO_LARGE
    long = post(b"X: " + b"y" * MOST_HEAD_BYTES)
    assert find_end(long).code is Code.HEADERS_TOO_LARGE
    assert find_end(long[: MOST_HEAD_BYTES + 1]).code is Code.HEADERS_TOO_LARGE
    assert find_end(long[:MOST_HEAD_BYTES]) == 0


def test_lines_without_a_carriage_return_are_refused_before_the_head_is_whole():
    assert find_end(b"GET / HTTP/1.1\nHost: a\n\n").code is Code.INVALID_REQUEST
    assert find_end(b"GET / HTTP/1.1\r") == 0


LINES = st.sampled_from(
    [
        b"Content-Length: 3",
        b"content-length: 3",
        b"Content-Length: 03",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding:chunked ",
        b"Transfer-Encoding: , chunked",
        b"Connection: close",
        b"Connection: upgrade",
        b"Upgrade: h2c",
        b"Expect: 100-continue",
        b"X: y",
        b"\tX: y",
        b"Host: b",
    ]
)


@given(
    lines=st.lists(LINES | st.binary(max_size=12), max_size=6),
    end=st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n"]),
    data=st.none() | st.binary(max_size=60),
)
@settings(max_examples=150)
def test_any_bytes_are_a_head_or_a_rejection_and_never_have_two_lengths(lines, end, data):
    raw = (b"POST / HTTP/1.1\r\nHost: a\r\n" + end.join([*lines, b""]) + b"\r\n") if data is None else data
    end_at = find_end(raw)
    if isinstance(end_at, Rejection) or not end_at:
        return
    head = parse_head(raw[:end_at])
    if isinstance(head, Rejection):
        return
    assert not (head.chunked and head.content_length is not None)
    named = [line.partition(b":")[0].strip().lower() for line in raw[:end_at].split(b"\r\n")]
    assert named.count(b"content-length") + named.count(b"transfer-encoding") <= 1
    sent_on = {line.partition(b":")[0].lower() for line in head.lines}
    assert not sent_on & {b"content-length", b"transfer-encoding", b"connection", b"upgrade"}
