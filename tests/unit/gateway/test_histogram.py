import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.gateway import histogram as tables
from stoker.gateway.histogram import Histogram


@pytest.mark.parametrize(
    ("value", "counts"),
    [
        pytest.param(0.0, [1, 0, 0], id="the first bucket begins at nothing"),
        pytest.param(1.0, [1, 0, 0], id="an upper bound belongs to its bucket"),
        pytest.param(1.5, [0, 1, 0], id="between two bounds it is the upper one's bucket"),
        pytest.param(7.0, [0, 0, 1], id="what is above all bounds is in the last bucket"),
    ],
)
def test_a_value_is_counted_in_one_bucket(value, counts):
    histogram = Histogram((1.0, 2.0))
    histogram.observe(value)
    assert histogram.counts == counts
    assert histogram.total == value


@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(tables.TIME_TO_FIRST_TOKEN_S, id="time to first token"),
        pytest.param(tables.TIME_PER_OUTPUT_TOKEN_S, id="time per output token"),
        pytest.param(tables.REQUEST_S, id="whole requests"),
        pytest.param(tables.QUEUE_S, id="waits"),
        pytest.param(tables.TOKENS, id="tokens"),
    ],
)
def test_bounds_ascend(bounds):
    assert list(bounds) == sorted(set(bounds))


def test_tables_begin_as_opentelemetry_advises():
    """semantic-conventions v1.41, docs/gen-ai/gen-ai-metrics.md, ExplicitBucketBoundaries."""
    assert tables.TIME_TO_FIRST_TOKEN_S[:16] == (
        *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    )
    assert tables.TIME_PER_OUTPUT_TOKEN_S[:13] == (
        *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5),
    )
    assert tables.TOKENS == (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576)


@given(values=st.lists(st.floats(0, 1e6)))
@settings(max_examples=50, deadline=None)
def test_each_bucket_holds_as_many_as_fit(values):
    bounds = (0.5, 10.0, 1000.0)
    histogram = Histogram(bounds)
    for value in values:
        histogram.observe(value)
    assert histogram.count == len(values)
    for at, bound in enumerate(bounds):
        assert sum(histogram.counts[: at + 1]) == sum(value <= bound for value in values)
