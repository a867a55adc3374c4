import asyncio
import time

import pytest

from stoker_serving.drain import drain
from stoker_serving.shared_state import SharedState


@pytest.fixture
def state():
    state = SharedState.create()
    yield state
    state.close()


async def test_accepts_until_the_address_is_gone_everywhere_then_refuses(state):
    assert not state.leaving
    draining = asyncio.create_task(drain(state, endpoint_removal_s=0.3, drain_s=10))
    await asyncio.sleep(0.05)
    assert state.leaving
    assert not state.refusing
    assert await draining == 0
    assert state.refusing


async def test_ends_as_soon_as_the_last_request_has_ended(state):
    slot = state.claim()
    slot.started()
    draining = asyncio.create_task(drain(state, endpoint_removal_s=0, drain_s=60))
    await asyncio.sleep(0.2)
    assert not draining.done()
    slot.finished()
    assert await asyncio.wait_for(draining, 10) == 0


async def test_waits_no_longer_than_allowed_and_says_how_many_are_left(state):
    slot = state.claim()
    slot.started()
    slot.started()
    began_s = time.monotonic()
    assert await drain(state, endpoint_removal_s=0, drain_s=0.2) == 2
    assert 0.2 <= time.monotonic() - began_s < 10
