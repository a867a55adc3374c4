"""vLLM itself behind the example of the demo; everything that needs no real engine is tried without it."""

import asyncio

import pytest
import yaml
from e2e import chat, install
from tests.cluster.world import eventually
from tests.e2e.scenarios.clients import question, session, stream
from tests.e2e.scenarios.space import model

EXAMPLE = yaml.safe_load((install.ROOT / "examples" / "chat.yaml").read_text())["spec"]
NODE = "node-1"
"""The only node that gets the image: it has 6 GB."""


@pytest.fixture
def example(space, load):
    """The spec of the example, with the registry of this cluster."""
    load("stoker-serving-cpu", NODE)
    space.spec = EXAMPLE | {
        "model": EXAMPLE["model"] | {"uri": model()["uri"]},
        "podTemplate": {"nodeSelector": {"kubernetes.io/hostname": NODE}},
    }
    space.patience_s = 300


async def test_vllm_streams_a_chat_answer_and_ends_no_stream_when_it_leaves(
    example, space, on, record_property
):
    await space.apply()
    estimated = await eventually(lambda: _capacity(space, "estimated"), within_s=60)
    service = await space.at_rest()
    assert service["status"]["modelVersion"]
    (pod,) = await space.pods()
    async with session() as client, client.get(f"http://{pod['status']['podIP']}:8081/state") as response:
        state = await response.json()
    assert state["engine"]["name"] == "vllm"
    capacity = state["capacity"]
    assert capacity["maxModelLen"] == EXAMPLE["model"]["contextLength"]
    assert capacity["kvCacheTokens"] <= capacity["blocks"] * capacity["blockSize"]
    assert capacity["kvCacheTokens"] == int(capacity["maxConcurrency"] * capacity["maxModelLen"])
    assert capacity["kvBytes"] < capacity["visibleBytes"]
    tokens = f"{estimated['kvCacheTokens']} estimated, {capacity['kvCacheTokens']} measured by the engine"
    record_property("kv_cache_tokens", tokens)
    assert abs(estimated["kvCacheTokens"] - capacity["kvCacheTokens"]) <= capacity["blockSize"]
    assert (await space.condition("ModelFits"))["status"] == "True"
    measured = await eventually(lambda: _capacity(space, "measured"), within_s=60)
    assert measured["kvCacheTokens"] == capacity["kvCacheTokens"]
    assert measured["measuredToEstimated"] == pytest.approx(1, abs=0.01)
    answer = await asyncio.to_thread(converse, on, space.namespace)
    assert (answer.model, answer.tokens) == ("chat", 16)
    assert answer.text

    streaming = asyncio.Event()
    async with session() as client:
        long = question(max_tokens=480, ignore_eos=True)
        running = asyncio.create_task(stream(client, await space.url(), long, started=streaming))
        await asyncio.wait_for(streaming.wait(), timeout=30)
        await space.apply(replicas=0)
        await space.reason("Ready", "ScaledToZero")
        await running
    await eventually(lambda: _no_pods(space), within_s=60)


def converse(on, namespace):
    """One question through a forwarded port, as the demo asks it."""
    with chat.port_forward(on, namespace=namespace, service="chat") as port:
        return chat.ask(port, model="chat", question="Who is there?", max_tokens=16, show=str)


async def _capacity(space, source):
    """`status.capacity`, once it comes from there."""
    capacity = (await space.service()).get("status", {}).get("capacity", {})
    assert capacity.get("source") == source, capacity
    return capacity


async def _no_pods(space):
    assert await space.pods() == []
