from datetime import UTC, datetime, timedelta

import pytest

from stoker.core.corrections import corrections_map, ratios, with_correction
from stoker.core.model import Correction

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


def test_a_ratio_is_kept_with_its_time():
    data = with_correction({}, Correction(key="5f3a9c01", ratio=0.97), now=NOW)
    assert data == {"5f3a9c01": "0.97 2026-12-01T08:00:00Z"}
    assert ratios(data) == {"5f3a9c01": 0.97}


@pytest.mark.parametrize(
    ("ratio", "kept"),
    [
        pytest.param(0.975, 0.97, id="some blocks more are nothing new"),
        pytest.param(0.99, 0.99, id="two percent are"),
    ],
)
def test_only_what_differs_is_written_again(ratio, kept):
    before = with_correction({}, Correction(key="a", ratio=0.97), now=NOW)
    after = with_correction(before, Correction(key="a", ratio=ratio), now=NOW + timedelta(days=1))
    assert ratios(after) == {"a": kept}
    assert (after == before) == (kept == 0.97)


def test_what_was_measured_longest_ago_goes_when_there_are_too_many():
    data: dict[str, str] = {}
    for number in range(1002):
        correction = Correction(key=f"{number:04}", ratio=1.0)
        data = with_correction(data, correction, now=NOW + timedelta(minutes=number))
    assert len(data) == 1000
    assert min(data) == "0002"


@pytest.mark.parametrize("text", ["", "a lot", "0 2026", "-1", "1e9", "nan", "inf"])
def test_what_no_engine_can_have_measured_is_left_out(text):
    assert ratios({"a": text, "b": "0.9 2026-12-01T08:00:00Z"}) == {"b": 0.9}


def test_the_config_map_is_where_it_is_looked_for_and_says_no_more():
    assert corrections_map(namespace="stoker-system", data={"a": "1"}) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "stoker-capacity-corrections", "namespace": "stoker-system"},
        "data": {"a": "1"},
    }
