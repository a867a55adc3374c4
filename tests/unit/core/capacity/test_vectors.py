import pytest
from tests.unit.core.capacity.vectors import Vector, vectors


@pytest.mark.parametrize("vector", [pytest.param(v, id=v.name) for v in vectors()])
def test_what_was_published_is_what_is_computed(vector: Vector):
    assert abs(vector.computed - vector.published) <= vector.within


def test_there_are_enough_of_them_to_mean_something():
    assert len(vectors()) >= 60
