"""Engines that crash, run out of memory, or serve no model."""

import contextlib
import json
import re

import aiohttp
from e2e import model_server
from tests.cluster.world import eventually
from tests.e2e.scenarios.clients import ask, prober, question, session
from tests.e2e.scenarios.space import engine, model

from stoker.kube.resources import PODS

NO_AUTHORITY = '[{"op": "remove", "path": "/data/ca.crt"}]'
SMALL = {"resources": {"limits": {"memory": "300Mi"}}}


async def test_an_engine_that_crashes_is_started_again_and_named_meanwhile(space):
    await space.at_rest()
    (pod,) = await space.pods()
    await break_engine(pod, crash="exit")
    unhealthy = await space.reason("InstancesHealthy", "EngineCrashed")
    assert pod["metadata"]["name"] in unhealthy["message"]
    assert (await space.condition("Ready"))["reason"] == "EngineCrashed"
    await space.serving()
    assert await space.lives() == {pod["metadata"]["uid"]: 1}
    async with session() as client:
        await ask(client, await space.url(), question())


async def test_an_engine_that_the_kernel_kills_for_its_memory_is_named_out_of_memory(space):
    await space.at_rest("greedy", podTemplate=SMALL)
    (pod,) = await space.pods("greedy")
    await break_engine(pod, name="greedy", crash="memory")
    unhealthy = await space.reason("InstancesHealthy", "OutOfMemory", name="greedy")
    assert pod["metadata"]["name"] in unhealthy["message"]
    await space.serving("greedy")


async def test_every_instance_that_fails_is_named_with_its_own_class(space):
    """Case O5: one is killed for its memory, another one cannot trust its source, a third is healthy."""
    await copy_secret(space, "forgotten")
    fields = {"podTemplate": SMALL, "model": model(credentialsSecret="forgotten")}
    await space.at_rest("mixed", replicas=2, **fields)
    doomed, healthy = (pod["metadata"]["name"] for pod in await space.pods("mixed"))
    await space.kubectl("patch", "secret", "forgotten", "--type=json", "-p", NO_AUTHORITY)
    await space.apply("mixed", replicas=3, **fields)
    await space.reason("InstancesHealthy", "WeightsUnreachable", name="mixed")
    (new,) = {pod["metadata"]["name"] for pod in await space.pods("mixed")} - {doomed, healthy}
    await break_engine(await space.get(PODS, doomed), name="mixed", crash="memory")

    async def all_named():
        message = (await space.condition("InstancesHealthy", "mixed"))["message"]
        assert re.search(rf"{doomed} on node-\d: OutOfMemory: ", message)
        assert re.search(rf"{new} on node-\d: WeightsUnreachable: ", message)
        assert healthy not in message
        ready = await space.condition("Ready", "mixed")
        assert (ready["status"], ready["reason"]) == ("True", "ServingBelowWanted")
        assert ready["message"].startswith("1 of 3 Ready")

    await eventually(all_named, within_s=30)


async def test_a_revision_whose_engine_lists_no_model_never_takes_over(space):
    """Case O6: `/health` says 200, and the instance is not Ready all the same."""
    await space.at_rest("listed")
    serving = await space.selected("listed")
    await space.apply("listed", engine=engine(STAND_IN_FAULTS='{"no_models": true}'))
    candidate = await space.candidate(serving, "listed")

    async def healthy():
        for pod in await space.pods("listed"):
            if pod["metadata"]["name"].startswith(candidate) and pod["status"].get("podIP"):
                async with session() as client, client.get(engine_url(pod) + "/health") as response:
                    assert response.status == 200
                async with session() as client, client.get(probe_url(pod) + "/state") as response:
                    assert (await response.json())["stage"] == "WarmingUp"
                return pod
        raise AssertionError("no pod of the candidate yet")

    async with prober(await space.url("listed"), name="listed") as probes:
        await eventually(lambda: tried(healthy()), within_s=30)
        # Several seconds, with a readiness probe in each that could have been taken in.
        enough = probes.answered + 60
        await eventually(lambda: _answered(probes, enough), within_s=30)
        assert await space.selected("listed") == serving
        assert (await space.condition("RolledOut", "listed"))["status"] == "False"
        (pod,) = [p for p in await space.pods("listed") if p["metadata"]["name"].startswith(candidate)]
        assert not any(status["ready"] for status in pod["status"]["containerStatuses"])
    assert probes.failed == []


async def break_engine(pod, *, name="chat", crash):
    """Have the engine of a pod end with the next token."""
    async with session(keep_alive=False) as client:
        fault = {"crash_after_tokens": 0, "crash": crash}
        async with client.post(engine_url(pod) + "/faults", json=fault) as response:
            assert response.status == 200, await response.text()
        # With luck there is an answer before the end.
        with contextlib.suppress(aiohttp.ClientError, AssertionError):
            await ask(client, engine_url(pod), question(name=name))


def engine_url(pod):
    return f"http://{pod['status']['podIP']}:8000"


def probe_url(pod):
    return f"http://{pod['status']['podIP']}:8081"


async def tried(attempt):
    """What an attempt returns; that nothing listens yet is an AssertionError like any other."""
    try:
        return await attempt
    except aiohttp.ClientError as error:
        raise AssertionError(str(error)) from error


async def _answered(probes, count):
    assert probes.answered >= count


async def copy_secret(space, name):
    """The registry's Secret once more, for a test that breaks it."""
    secret = json.loads(await space.kubectl("get", "secret", model_server.SECRET, "-o", "json"))
    copy = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": secret["data"]}
    await space.kubectl("apply", "--server-side", "-f", "-", stdin=copy)
