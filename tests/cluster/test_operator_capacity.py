"""Does the model fit? The operator, a real API server, and a model hub that counts who asks."""

import base64
import json
import ssl

import pytest
import trustme
from tests.cluster.instances import Instances
from tests.cluster.world import World, eventually
from tests.unit.core.capacity.real_models import config
from tests.unit.fetch.model_folders import safetensors
from tests.unit.web_server import WebServer

from stoker.kube import access
from stoker.kube.client import Client
from stoker.kube.permissions import (
    IN_OWN_NAMESPACE,
    IN_WATCHED_NAMESPACES,
    TO_READ_CREDENTIALS,
    TO_READ_LOAD,
)
from stoker.kube.resources import CONFIG_MAPS, PODS

COMMIT = "d04e592bb4f6aa9cfee91e2e20afa771667e1d4b"
CONFIG = config("meta-llama--Meta-Llama-3.1-8B")
LENGTHS = {"too long": 131_072, "short": 8192}
TENSORS = {
    **{f"model.layers.{n}.mlp.up_proj.weight": ("BF16", (53_250, 4096), 0) for n in range(32)},
    "model.embed_tokens.weight": ("BF16", (128_256, 4096), 0),
    "lm_head.weight": ("BF16", (128_256, 4096), 0),
}
"""Its 8 billion parameters, by the header; nobody reads what follows it."""
MEASURED = {
    "kvCacheTokens": 31_312,
    "blocks": 1957,
    "blockSize": 16,
    "maxConcurrency": 3.82,
    "maxModelLen": 8192,
    "kvBytes": None,
    "weightsBytes": None,
    "visibleBytes": None,
}


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def hub(authority):
    """Has one private repository, 8 billion parameters by its config."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    with WebServer(tls=tls) as hub:
        files = {"config.json": json.dumps(CONFIG).encode(), "model.safetensors": safetensors(TENSORS)}
        siblings = [{"rfilename": path, "size": len(content)} for path, content in files.items()]
        info = {"id": "acme/llama", "sha": COMMIT, "siblings": siblings}
        hub.files["/api/models/acme/llama"] = json.dumps(info).encode()
        for path, content in files.items():
            hub.files[f"/acme/llama/resolve/{COMMIT}/{path}"] = content
        hub.authorization = "Bearer let-me-in"
        yield hub


@pytest.fixture
async def world(api_server, namespace, kubectl, hub, authority):
    secret = {"HF_ENDPOINT": hub.url, "HF_TOKEN": "let-me-in", "ca.crt": authority.cert_pem.bytes().decode()}
    data = {key: base64.b64encode(value.encode()).decode() for key, value in secret.items()}
    metadata = {"name": "hub", "namespace": namespace}
    kubectl(
        "apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    )
    spec = {"model": model("too long"), "accelerator": {"type": "nvidia-l4"}}
    async with Client(await access.load(str(api_server))) as client:
        yield World(client=client, namespace=namespace, spec=spec)


@pytest.fixture
def operator(start):
    """Starts operators that may ask the hub, which is on loopback."""
    return lambda name: start(name, allow_cluster_internal_sources=True, gateway_service="stoker-gateway")


def model(length):
    return {"uri": "hf://acme/llama", "credentialsSecret": "hub", "contextLength": LENGTHS[length]}


async def test_a_model_that_does_not_fit_gets_no_pod_until_its_context_is_shorter(world, operator, hub):
    operator("first")
    await world.apply()
    told = await eventually(lambda: _has_reason(world, "ModelFits", "DoesNotFit"), within_s=20)
    assert told["status"] == "False"
    assert "one request of 131,072 tokens does not fit on 1 x nvidia-l4: " in told["message"]
    assert "use 1 x nvidia-a100-40gb" in told["message"]
    assert (await world.condition("Stalled"))["reason"] == "DoesNotFit"
    capacity = (await world.service())["status"]["capacity"]
    assert f"Set `model.contextLength` to {capacity['maxContextLength']:,} at most" in told["message"]
    assert await world.deployments() == []
    assert await world.list(PODS) == []

    async with Instances(world.client, world.namespace).running():
        await world.apply(model=model("short"))
        await world.serving()
    assert (await world.condition("ModelFits"))["status"] == "True"
    capacity = (await world.service())["status"]["capacity"]
    assert (capacity["source"], capacity["contextLength"]) == ("estimated", 8192)
    assert capacity["requestsPerInstance"] >= 1


async def test_a_restarted_operator_asks_nobody_again(world, operator, hub):
    first = operator("first")
    await world.apply("fits", model=model("short"))
    await world.apply("does-not")
    await eventually(lambda: _has_reason(world, "ModelFits", "Fits", "fits"), within_s=20)
    await eventually(lambda: _has_reason(world, "ModelFits", "DoesNotFit", "does-not"), within_s=20)
    before = await world.at_rest()
    asked = len(hub.requests)
    assert asked
    assert first.terminate() == 0

    second = operator("second")

    async def has_looked():
        assert second.reconciles() >= 2
        assert second.is_idle()

    await eventually(has_looked, within_s=20)
    assert len(hub.requests) == asked
    assert second.writes() == 0
    assert await world.versions() == before
    assert len(await world.deployments("fits")) == 1


async def test_what_the_engine_measures_takes_over_and_is_kept_for_others(world, operator, home):
    operator("first")
    instances = Instances(world.client, world.namespace)
    async with instances.running():
        instances.paused = True
        await world.apply(model=model("short"))
        await eventually(lambda: _has_reason(world, "ModelFits", "Fits"), within_s=20)
        instances.says[(await world.deployments())[0]["metadata"]["name"]] = {"capacity": MEASURED}
        instances.paused = False
        await world.serving()

        async def measured():
            capacity = (await world.service())["status"]["capacity"]
            assert capacity["source"] == "measured", capacity
            return capacity

        capacity = await eventually(measured, within_s=10)
    assert (capacity["requestsPerInstance"], capacity["kvCacheTokens"]) == (3, 31_312)
    kept = await world.client.get(CONFIG_MAPS, namespace=home, name="stoker-capacity-corrections")
    (ratio,) = kept["data"].values()
    assert ratio.startswith(f"{capacity['measuredToEstimated']:g} ")

    await world.apply("another", model=model("too long"), accelerator={"type": "nvidia-l4"})
    told = await eventually(lambda: _has_reason(world, "ModelFits", "DoesNotFit", "another"), within_s=20)
    assert f"x {capacity['measuredToEstimated']:.3f} as measured" in told["message"]


async def test_every_permission_is_used(world, operator):
    """The operator runs under exactly these permissions, so none is missing; and none is for nothing."""
    running = operator("first")
    async with Instances(world.client, world.namespace).running():
        await world.apply(model=model("short"))
        await world.serving()
        old = await world.selected()
        await world.apply(model=model("short"), engine={"args": ["--max-num-seqs", "4"]})

        async def taken_over():
            assert old not in [d["metadata"]["name"] for d in await world.deployments()]

        await eventually(taken_over, within_s=30)
    calls = running.samples("stoker_api_requests_total")
    used = {(resource, verb) for (_, resource, verb) in calls}
    assert "is forbidden: User" not in running.log.read_text()
    granted = {
        (resource, verb)
        for rule in IN_WATCHED_NAMESPACES + TO_READ_CREDENTIALS + IN_OWN_NAMESPACE + TO_READ_LOAD
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    # kopf lists and watches, which our client does not count; an apply that creates counts as a patch.
    watched = {resource for resource, verb in granted if verb == "watch"}
    implied = {(resource, verb) for resource in watched for verb in ("list", "watch")} | {
        (resource, "create") for resource, verb in used if verb == "patch"
    }
    assert granted - implied == used - implied


async def _has_reason(world, type_, reason, name="chat"):
    condition = await world.condition(type_, name)
    assert condition["reason"] == reason, condition
    return condition
