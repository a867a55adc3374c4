"""An instance leaves in the middle of its work."""

import asyncio

from tests.cluster.world import eventually
from tests.e2e.scenarios.clients import prober, question, session, stream
from tests.e2e.scenarios.space import engine

SLOW = engine(STAND_IN_FAULTS='{"slow_factor": 10}')


async def test_a_deleted_instance_finishes_its_stream_and_refuses_what_comes_after(space):
    await space.at_rest(engine=SLOW, replicas=2)
    leaving, _ = await space.pods()
    address = f"http://{leaving['status']['podIP']}:8000"
    streaming = asyncio.Event()
    async with prober(await space.url()) as probes, session() as client:
        long = question(max_tokens=800, ignore_eos=True)
        running = asyncio.create_task(stream(client, address, long, started=streaming))
        await asyncio.wait_for(streaming.wait(), timeout=10)
        await space.kubectl("delete", "pod", leaving["metadata"]["name"], "--wait=false")
        refusal = await eventually(lambda: _refused(address), within_s=20)
        assert not running.done(), "the stream outlives the first refusal"
        assert refusal.headers["Retry-After"]
        assert refusal.headers["Connection"] == "close"
        assert len(await running) == 800
        await eventually(lambda: _left(space, leaving), within_s=60)
        await space.serving(replicas=2)
    assert probes.failed == []


async def _refused(address):
    async with (
        session(keep_alive=False) as client,
        client.post(f"{address}/v1/completions", json=question()) as response,
    ):
        assert response.status == 503, "still accepts, as nodes have not heard yet that it leaves"
        assert (await response.json())["error"]["code"] == "draining"
        return response


async def _left(space, pod):
    assert pod["metadata"]["name"] not in [p["metadata"]["name"] for p in await space.pods()]
