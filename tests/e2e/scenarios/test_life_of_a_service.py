"""Apply, answer, edit, scale by hand, delete."""

import asyncio
import subprocess

from e2e.tiny_model import make
from tests.cluster.world import eventually
from tests.e2e.scenarios.clients import ask, prober, question, session, stream
from tests.e2e.scenarios.space import engine

from stoker.kube.resources import DEPLOYMENTS, PODS

DIGEST_BY_HAND = "find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum"
"""From docs/troubleshoot.md."""


async def test_what_kubectl_applied_answers_and_says_what_it_serves(space, tmp_path):
    status = (await space.at_rest())["status"]
    url = await space.url()
    async with session() as client:
        assert await ask(client, url, question("hello world", max_tokens=8))
        assert len(await stream(client, url, question(max_tokens=8))) == 8

    (revision,) = status["revisions"]
    assert revision["weightsDigest"] == digest_by_hand(tmp_path / "tiny")
    assert status["modelVersion"] == revision["modelRevision"]
    assert (revision["phase"], revision["weight"]) == ("Serving", 100)
    assert status["url"] == "http://stoker-gateway.stoker-system.svc/v1"
    assert status["ready"] == "1/1"
    (instance,) = status["instances"]
    assert (instance["state"], instance["revision"]) == ("Serving", revision["name"])


async def test_an_edit_that_needs_no_new_pods_leaves_the_pods_alone(space):
    await space.at_rest()
    before = await space.lives()
    await space.apply(queue={"maxRequests": 7}, scaling={"maxReplicas": 3}, cost={"perAcceleratorHour": 2})
    await space.settled()
    assert await space.lives() == before
    assert len(await space.deployments()) == 1


async def test_new_arguments_take_over_without_a_failed_request(space, record_property):
    """Case O14: exactly one new revision, its pod made once, and users notice nothing."""
    slow = {"STAND_IN_FAULTS": '{"slow_factor": 10}'}
    await space.at_rest(engine=engine(**slow))
    old = await space.selected()
    url = await space.url()
    deployments, pods = set(), set()

    async def count():
        while True:
            deployments.update(d["metadata"]["uid"] for d in await space.deployments())
            pods.update(pod["metadata"]["uid"] for pod in await space.pods())
            await asyncio.sleep(0.2)

    counting = asyncio.create_task(count())
    streaming = asyncio.Event()
    async with prober(url) as probes, session() as client:
        long = question(max_tokens=1000, ignore_eos=True)
        running = asyncio.create_task(stream(client, url, long, started=streaming))
        await asyncio.wait_for(streaming.wait(), timeout=10)
        await space.apply(engine=engine("--max-num-seqs", "16", **slow))
        new = await space.candidate(old)
        await space.serving(revision=new)
        await eventually(lambda: _gone(space, old), within_s=90)
        assert len(await running) == 1000
    assert not counting.done()
    counting.cancel()
    record_property("probes", str(probes))
    assert probes.failed == []
    assert probes.answered > 50
    assert len(deployments) == len(pods) == 2, "the old and one new, none made twice"


async def test_kubectl_scale_sets_the_number_of_instances_and_zero_is_ready(space):
    await space.at_rest("scaled")
    (first,) = await space.lives("scaled")
    await space.kubectl("scale", "infer", "scaled", "--replicas=2")
    await space.serving("scaled", replicas=2)
    assert {pod["spec"]["nodeName"] for pod in await space.pods("scaled")} == {"node-1", "node-2"}
    assert first in await space.lives("scaled")

    await space.kubectl("scale", "infer", "scaled", "--replicas=0")
    ready = await space.reason("Ready", "ScaledToZero", name="scaled")
    assert ready["status"] == "True"
    await eventually(lambda: _gone(space, "scaled", PODS), within_s=60)

    await space.kubectl("scale", "infer", "scaled", "--replicas=1")
    await space.serving("scaled")
    async with session() as client:
        await ask(client, await space.url("scaled"), question(name="scaled"))


async def test_delete_leaves_nothing_behind(space):
    """Case O13: the claim of the weights does not even exist, and deletion finishes all the same."""
    await space.apply("broken", model={"uri": "pvc://no-such-claim/model"})
    await space.reason("Ready", "WaitingForNode", name="broken")
    await space.at_rest("sound")
    await space.kubectl("delete", "infer", "broken", "sound", "--timeout=30s")
    await eventually(lambda: _nothing_named(space, "broken", "sound"), within_s=60)


def digest_by_hand(folder):
    """What a person with a copy of the model computes."""
    make.make(folder)
    (folder / make.SUMS_FILE).unlink()
    sums = subprocess.check_output(["bash", "-c", DIGEST_BY_HAND], cwd=folder, text=True)
    return f"sha256:{sums.split()[0]}"


async def _gone(space, prefix, *resources):
    for resource in resources or (DEPLOYMENTS, PODS):
        left = [obj["metadata"]["name"] for obj in await space.list(resource)]
        assert not [name for name in left if name.startswith(prefix)]


async def _nothing_named(space, *prefixes):
    kinds = (
        "infer,deploy,replicasets,pods,services,endpointslices,poddisruptionbudgets,serviceaccounts,leases"
    )
    left = (await space.kubectl("get", kinds, "-o", "name")).split()
    assert not [name for name in left if name.partition("/")[2].startswith(prefixes)]
