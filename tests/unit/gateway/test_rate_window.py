import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.gateway.rate_window import RateWindow


def window_of(*used):
    """With these (second, count) used."""
    window = RateWindow()
    for now_s, count in used:
        window.add(count, now_s)
    return window


@pytest.mark.parametrize(
    ("used", "count", "now_s", "wait_s"),
    [
        pytest.param([(3, 4), (50, 6)], 2, 51, 12, id="the worked example"),
        pytest.param([(3, 4), (50, 6)], 5, 51, 59, id="more waits for more to be a minute ago"),
        pytest.param([(3, 4), (50, 6)], 2, 63, 0, id="what is a minute ago does not count"),
        pytest.param([(3.9, 10)], 10, 62.5, 0.5, id="to the second, and never too early by more"),
        pytest.param([], 10, 5, 0, id="all of it fits at once"),
        pytest.param([(3, 9)], 1, 3, 0, id="the last one fits"),
        pytest.param([(3, 10)], 1, 10_000, 0, id="after a long pause nothing is left"),
    ],
)
def test_when_there_is_room(used, count, now_s, wait_s):
    assert window_of(*used).wait_s(count, limit=10, now_s=now_s) == pytest.approx(wait_s)


def test_a_limit_that_was_lowered_waits_for_enough_to_be_a_minute_ago():
    assert window_of((0, 10), (30, 10)).wait_s(5, limit=5, now_s=31) == 59


@given(
    steps=st.lists(st.tuples(st.floats(0, 20), st.integers(1, 10)), max_size=60),
    limit=st.integers(10, 30),
)
def test_never_more_than_the_limit_in_any_minute_and_room_when_it_was_promised(steps, limit):
    window = RateWindow()
    now_s = 0.0
    taken = []
    for pause_s, count in steps:
        now_s += pause_s
        wait_s = window.wait_s(count, limit=limit, now_s=now_s)
        if wait_s > 0:
            now_s += wait_s
            assert window.wait_s(count, limit=limit, now_s=now_s) == 0
        window.add(count, now_s)
        taken.append((now_s, count))
        # Slots are whole seconds, so what counts is the 59 s that lie fully inside.
        assert sum(n for at_s, n in taken if at_s > now_s - 59) <= limit


def test_what_was_used_less_than_reserved_is_free_again():
    window = window_of((10, 8))
    window.correct(-5, then_s=10, now_s=20)
    assert window.used == 3
    assert window.wait_s(7, limit=10, now_s=20) == 0


def test_what_was_used_more_counts_from_when_it_was_reserved():
    window = window_of((10, 2))
    window.correct(5, then_s=10, now_s=20)
    assert window.used == 7
    window.advance(70)
    assert window.used == 0


@pytest.mark.parametrize(
    ("count", "used"),
    [
        pytest.param(5, 5, id="more counts from now"),
        pytest.param(-5, 0, id="less no longer matters"),
    ],
)
def test_a_correction_after_more_than_a_minute(count, used):
    window = window_of((10, 8))
    window.correct(count, then_s=10, now_s=100)
    assert window.used == used


def test_a_clock_read_a_little_earlier_changes_nothing():
    window = window_of((10, 8))
    window.advance(9)
    assert window.used == 8
