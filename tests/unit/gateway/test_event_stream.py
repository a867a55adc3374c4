import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gateway.scripted_engine import DONE, error, event, token, usage

from stoker.gateway.event_stream import EventStream
from stoker.gateway.usage import Usage


def taken(pieces, *, drops_usage=True):
    stream = EventStream(drops_usage=drops_usage)
    return b"".join([stream.take(piece) for piece in pieces] + [stream.rest()]), stream


def cut(data, at):
    edges = [0, *sorted(at), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(
    texts=st.lists(st.text(max_size=8), max_size=6),
    at=st.lists(st.integers(0, 1200), max_size=8),
    drops_usage=st.booleans(),
)
def test_wherever_it_is_cut_exactly_the_usage_is_left_out(texts, at, drops_usage):
    events = [token(text) for text in texts]
    data = b"".join([*events, usage(prompt=5, completion=2), DONE])
    out, stream = taken(cut(data, [a for a in at if a < len(data)]), drops_usage=drops_usage)
    assert out == (b"".join([*events, DONE]) if drops_usage else data)
    assert stream.usage == Usage(prompt_tokens=5, cached_tokens=0, completion_tokens=2)
    assert stream.events == len(events) + (not drops_usage)


@given(at=st.lists(st.integers(0, 400), max_size=8))
def test_wherever_it_is_cut_nothing_follows_an_error(at):
    data = token("a") + error("dead") + token("b") + DONE
    out, stream = taken(cut(data, [a for a in at if a < len(data)]))
    assert out == token("a") + error("dead")
    assert b"dead" in stream.error


@given(at=st.lists(st.integers(0, 600), max_size=8))
def test_only_whole_events_leave(at):
    data = b"".join(map(token, "abcd"))
    stream = EventStream(drops_usage=True)
    for piece in cut(data, [a for a in at if a < len(data)]):
        assert stream.take(piece).endswith((b"\n\n", b""))
        assert not stream.mid_event


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(token('"usage":{"prompt_tokens":1}'), id="a text that speaks of usage"),
        pytest.param(token('data: {"error": 1}\n\ndata: [DONE]\n\n'), id="a text that looks like events"),
        pytest.param(
            event({"choices": [{"index": 0}], "usage": {"prompt_tokens": 1}}), id="usage with choices"
        ),
        pytest.param(event({"choices": [], "usage": None}), id="no usage"),
        pytest.param(event({"choices": []}), id="no choices"),
        pytest.param(b": keep-alive\n\n", id="a comment"),
        pytest.param(b"data: not JSON\n\n", id="what is not JSON"),
        pytest.param(b'data: {"choices":[],"usage":{broken\n\n', id="broken JSON"),
    ],
)
def test_everything_else_goes_to_the_client_as_it_is(kept):
    out, stream = taken([token("a") + kept + DONE])
    assert out == token("a") + kept + DONE
    assert stream.error is None


@pytest.mark.parametrize(
    "failed",
    [
        pytest.param(error(), id="OpenAI's way"),
        pytest.param(b'data: {"object":"error","message":"x","code":500}\n\n', id="the way of older engines"),
        pytest.param(b'event: error\ndata: {"type":"error"}\n\n', id="an event of that name"),
    ],
)
def test_error_events(failed):
    for before in (b"", token("a")):
        out, stream = taken([before + failed, DONE])
        assert out == before + failed
        assert stream.error is not None


def test_spaces_in_the_json_make_no_difference():
    out, stream = taken([b'data: {"choices": [], "usage" : {"prompt_tokens": 3}}\n\n', DONE])
    assert (out, stream.usage.prompt_tokens) == (DONE, 3)


def test_an_engine_that_ends_lines_the_other_way():
    events = [e.replace(b"\n", b"\r\n") for e in (token("a"), usage(), token("b"), DONE)]
    out, stream = taken([b"".join(events)[:30], b"".join(events)[30:]])
    assert out == b"".join([events[0], events[2], events[3]])
    assert stream.events == 2


def test_an_event_too_big_to_hold_goes_on_in_parts():
    big = token("x" * 400_000)
    stream = EventStream(drops_usage=True)
    out = stream.take(big[:300_000])
    assert (out, stream.mid_event) == (big[:300_000], True)
    assert stream.take(big[300_000:]) == big[300_000:]
    assert not stream.mid_event


def test_the_last_event_may_lack_its_end():
    out, _ = taken([token("a"), DONE.rstrip()])
    assert out == token("a") + DONE.rstrip()
