from tests.unit.core.capacity.models import settings


def test_an_instance_uses_every_rank_of_every_engine():
    assert settings(tensor_parallel=4, pipeline_parallel=2, data_parallel=3).ranks == 24
