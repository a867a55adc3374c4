from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.quantity import parse_quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        pytest.param("1500m", Decimal("1.5"), id="thousandths"),
        pytest.param("2Ki", Decimal(2048), id="powers of two"),
        pytest.param("2k", Decimal(2000), id="powers of ten"),
        pytest.param("1e3", Decimal(1000), id="an exponent"),
        pytest.param("1E", Decimal("1e18"), id="E alone is exa, not an exponent"),
        pytest.param(".5", Decimal("0.5"), id="no digit before the point"),
        pytest.param(4, Decimal(4), id="a number that YAML took for one"),
        pytest.param(0.5, Decimal("0.5"), id="a fraction that YAML took for a number"),
        pytest.param("lots", None, id="a word is none"),
        pytest.param("1 Gi", None, id="a blank is not allowed"),
        pytest.param(True, None, id="a boolean is none"),
        pytest.param(None, None, id="nothing is none"),
    ],
)
def test_reads_what_kubernetes_reads(text, amount):
    assert parse_quantity(text) == amount


@given(st.integers(0, 10**9))
def test_the_same_amount_in_another_spelling_is_equal(millis):
    assert parse_quantity(f"{millis}m") == parse_quantity(str(Decimal(millis) / 1000))
    assert parse_quantity(f"{millis}Mi") == parse_quantity(f"{millis * 1024}Ki")
