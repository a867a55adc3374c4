import asyncio

import pytest
import uvloop
from tests.unit.gateway.gateway import Gateway
from tests.unit.gateway.scripted_engine import ScriptedEngine


def pytest_asyncio_loop_factories(config, item):
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def engine():
    async with ScriptedEngine() as engine:
        yield engine


@pytest.fixture
async def other_engine():
    async with ScriptedEngine() as engine:
        yield engine


@pytest.fixture
async def gateway(engine):
    """A gateway whose service `chat` has one instance, the scripted engine."""
    async with Gateway() as gateway:
        await gateway.serve(engine)
        yield gateway
