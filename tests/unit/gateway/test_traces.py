import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.gateway.traces import Parent, Tracing, parse_traceparent

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"00-{TRACE}-{SPAN}-01", True, id="a sampled parent"),
        pytest.param(f"00-{TRACE}-{SPAN}-00", False, id="a parent that is not sampled"),
        pytest.param(f"00-{TRACE}-{SPAN}-03", True, id="other flags do not matter"),
        pytest.param(f"01-{TRACE}-{SPAN}-01-later", True, id="a later version may say more"),
    ],
)
def test_a_parent_is_read(text, expected):
    assert parse_traceparent(text) == Parent(trace_id=TRACE, span_id=SPAN, sampled=expected)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("hello", id="something else"),
        pytest.param(f"ff-{TRACE}-{SPAN}-01", id="the version that never is"),
        pytest.param(f"00-{'0' * 32}-{SPAN}-01", id="no trace"),
        pytest.param(f"00-{TRACE}-{'0' * 16}-01", id="no span"),
        pytest.param(f"00-{TRACE.upper()}-{SPAN}-01", id="capital letters"),
        pytest.param(f"00-{TRACE}-{SPAN}-01-more", id="more than this version has"),
        pytest.param(f"00-{TRACE}-{SPAN}-01\n", id="a line's end"),
        pytest.param(f"00-{TRACE}-{SPAN}-01, 00-{TRACE}-{SPAN}-01", id="the header twice"),
    ],
)
def test_what_is_no_parent_is_ignored(text):
    assert parse_traceparent(text) is None


@pytest.mark.parametrize("flags", ["00", "01"])
def test_the_span_is_a_child_of_the_clients_and_keeps_its_decision(flags):
    span = Tracing(ratio=0.5, bits=lambda n: 0xABC).begin(f"00-{TRACE}-{SPAN}-{flags}")
    assert (span.trace_id, span.parent_id, span.span_id) == (TRACE, SPAN, "0000000000000abc")
    assert span.traceparent() == f"00-{TRACE}-0000000000000abc-{flags}"


def test_without_a_parent_a_trace_begins():
    span = Tracing(ratio=1.0, bits=random.Random(1).getrandbits).begin("")
    assert span.parent_id == ""
    assert parse_traceparent(span.traceparent()) == Parent(
        trace_id=span.trace_id, span_id=span.span_id, sampled=True
    )


@pytest.mark.parametrize(
    ("ratio", "low", "high"),
    [
        pytest.param(0.0, 0, 0, id="none"),
        pytest.param(0.1, 60, 140, id="one in ten"),
        pytest.param(1.0, 1000, 1000, id="all"),
    ],
)
def test_the_ratio_decides_where_a_trace_begins(ratio, low, high):
    tracing = Tracing(ratio=ratio, bits=random.Random(1).getrandbits)
    assert low <= sum(tracing.begin("").sampled for _ in range(1000)) <= high


def test_chance_that_gives_zero_makes_no_void_ids():
    bits = itertools.repeat(0)
    span = Tracing(ratio=1.0, bits=lambda n: next(bits)).begin("")
    assert parse_traceparent(span.traceparent()) is not None


@given(text=st.text(max_size=80))
@settings(max_examples=100, deadline=None)
def test_whatever_a_client_sends_the_engine_gets_a_valid_parent(text):
    span = Tracing(ratio=0.5, bits=random.Random(1).getrandbits).begin(text)
    assert parse_traceparent(span.traceparent()) is not None
