import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.gateway.errors import Code, Rejection
from stoker.gateway.known_heads import KnownHeads
from stoker.gateway.request_head import parse_head


def head(*headers, path="/v1/chat/completions"):
    lines = [f"POST {path} HTTP/1.1", "Host: a", "Content-Type: application/json", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def test_heads_that_differ_in_the_length_of_the_body_alone_are_one():
    heads = KnownHeads()
    first, first_length = heads.read(head("Content-Length: 7", "X: y"))
    second, second_length = heads.read(head("Content-Length: 1234", "X: y"))
    assert first is second
    assert (first_length, second_length) == (7, 1234)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(head("Content-Length: 7", "X: z"), id="another value"),
        pytest.param(head("Content-Length: 7", "X: y", path="/v1/embeddings"), id="another path"),
        pytest.param(head("X: y", "Content-Length: 7"), id="another order"),
        pytest.param(head("X: y"), id="no length"),
        pytest.param(head("Transfer-Encoding: chunked", "X: y"), id="chunked"),
    ],
)
def test_any_other_difference_counts(other):
    heads = KnownHeads()
    known, _ = heads.read(head("Content-Length: 7", "X: y"))
    assert heads.read(other)[0] is not known


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(head("Content-Length: 7", "Content-Length: 8"), id="two lengths"),
        pytest.param(head("Content-Length: 7", "content-length: 7"), id="two equal lengths"),
        pytest.param(head("Content-Length: 7", "Transfer-Encoding: chunked"), id="length and chunks"),
        pytest.param(head("Content-Length: 7", "Content-Length : 8"), id="a second one in disguise"),
        pytest.param(head("Content-Length: 7", " Content-Length: 8"), id="a second one in a folded line"),
    ],
)
def test_what_is_malformed_is_refused_every_time(bad):
    heads = KnownHeads()
    heads.read(head("Content-Length: 7"))
    for _ in range(2):
        assert heads.read(bad).code is Code.INVALID_REQUEST


def test_a_length_in_an_unusual_form_is_read_every_time():
    heads = KnownHeads()
    for _ in range(2):
        assert heads.read(head("CONTENT-LENGTH:9"))[1] == 9


def test_the_engine_gets_the_clients_key_only_where_the_gateway_has_none():
    known, _ = KnownHeads().read(head("Authorization: Bearer key", "Content-Length: 2", "X: y"))
    first = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    assert known.for_engine == first + b"Authorization: Bearer key\r\nX: y\r\n"
    assert known.for_engine_without_key == first + b"X: y\r\n"


LINES = st.sampled_from(
    [
        "Content-Length: 3",
        "Content-Length: 12",
        "content-length: 3",
        "Content-Length:3",
        "X: y",
        "Transfer-Encoding: chunked",
    ]
)


@given(st.lists(st.lists(LINES, max_size=3), max_size=12))
@settings(max_examples=60)
def test_a_head_that_is_remembered_says_what_it_says_when_read_anew(all_lines):
    heads = KnownHeads()
    for lines in all_lines:
        data = head(*lines)
        read, anew = heads.read(data), parse_head(data)
        if isinstance(read, Rejection) or isinstance(anew, Rejection):
            assert read == anew
            continue
        known, length = read
        assert length == (anew.content_length or 0)
        assert known.head.lines == anew.lines
        assert known.head.chunked == anew.chunked


def test_only_so_many_heads_are_remembered():
    heads = KnownHeads()
    for n in range(2000):
        heads.read(head(f"X: {n}"))
    assert len(heads._known) <= 512
    heads.read(head("X: " + "y" * 8000))
    assert not any(len(key) > 4096 for key in heads._known)
