import pytest
from tests.unit.gateway.gateway import Gateway
from tests.unit.gateway.scripted_engine import ScriptedEngine


@pytest.fixture
async def engine():
    async with ScriptedEngine() as engine:
        yield engine


@pytest.fixture
async def gateway(engine):
    """A gateway whose service `chat` has one instance, the scripted engine."""
    async with Gateway() as gateway:
        await gateway.serve(engine)
        yield gateway
