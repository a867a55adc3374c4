from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.gateway.rendezvous import key_of, line_of, score, weighted_distance

KEYS = [key_of(b"prompt %d" % i) for i in range(4_000)]


def homes(count, keys=KEYS):
    lines = [line_of(f"chat-5f3a9c01-{i}") for i in range(count)]
    return [max(range(count), key=lambda at: score(key, lines[at])) for key in keys]


@pytest.mark.parametrize("count", [pytest.param(n, id=f"over {n} names") for n in (2, 3, 7, 16)])
@pytest.mark.parametrize(
    "keys", [pytest.param(KEYS, id="of texts"), pytest.param(range(4_000), id="that are consecutive numbers")]
)
def test_keys_spread_evenly(count, keys):
    each = 4_000 / count
    # Five standard deviations of what chance would do.
    assert all(abs(n - each) < 5 * each**0.5 for n in Counter(homes(count, keys)).values())


def test_second_choices_spread_evenly_too():
    """When an instance goes, no single other one gets all that was its."""
    lines = [line_of(f"chat-{i}") for i in range(5)]
    seconds = Counter()
    for key in KEYS:
        first, second, *_ = sorted(range(5), key=lambda at: -score(key, lines[at]))
        if first == 0:
            seconds[second] += 1
    each = sum(seconds.values()) / 4
    assert sorted(seconds) == [1, 2, 3, 4]
    assert all(abs(n - each) < 5 * each**0.5 for n in seconds.values())


def test_every_process_computes_the_same():
    assert homes(8, range(12)) == [7, 2, 2, 7, 3, 4, 7, 6, 1, 3, 1, 2]


@pytest.mark.parametrize(
    ("weights", "share"),
    [
        pytest.param((90, 10), 0.10, id="ten in a hundred"),
        pytest.param((50, 50), 0.50, id="half"),
        pytest.param((1, 3), 0.75, id="three in four"),
    ],
)
def test_weights_are_shares_of_the_keys(weights, share):
    lines = [line_of("chat-r1"), line_of("chat-r2")]
    second = sum(
        weighted_distance(k, lines[1], weights[1]) < weighted_distance(k, lines[0], weights[0]) for k in KEYS
    )
    assert second == pytest.approx(share * len(KEYS), rel=0.15)


@given(key=st.integers(0, 2**61), name=st.text(max_size=20), weight=st.integers(1, 100))
def test_any_key_and_name_have_a_distance(key, name, weight):
    assert 0 <= weighted_distance(key, line_of(name), weight) < 50
    assert weighted_distance(key, line_of(name), weight + 1) <= weighted_distance(key, line_of(name), weight)
