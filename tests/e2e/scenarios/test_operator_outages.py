"""The operator is killed, restarted and upgraded, and no instance notices."""

import asyncio
import time

import pytest
from e2e import install
from tests.cluster.world import eventually
from tests.e2e.scenarios import operator_pods
from tests.e2e.scenarios.clients import prober
from tests.e2e.scenarios.space import engine

from stoker.kube.resources import INFERENCE_SERVICES

TAKEOVER_S = 20
"""From the end of the replica that leads to the other one's Lease."""


async def test_a_rollout_goes_on_after_all_operators_are_killed_in_the_middle_of_it(
    space, layout, record_property
):
    await operator_pods.both_ready(space)
    await space.at_rest()
    old = await space.selected()
    async with prober(await space.url()) as probes:
        await space.apply(engine=engine("--max-num-seqs", "16"))
        new = await space.candidate(old)
        operator_pods.kill(layout, *(await operator_pods.replicas(space)).values())
        assert await space.selected() == old
        await space.serving(revision=new)
        await eventually(lambda: _only(space, new), within_s=60)
    record_property("probes", str(probes))
    assert probes.failed == []


async def test_when_the_leader_is_killed_the_other_replica_leads_within_20_s_and_writes_nothing_twice(
    space, layout, record_property
):
    await operator_pods.both_ready(space)
    await space.at_rest()
    await operator_pods.leader_has_looked(space)
    identity, pod = await operator_pods.holder(space), await operator_pods.leader(space)
    versions, lives = await space.versions(), await space.lives()
    status = (await space.service())["status"]
    (deployment,) = await space.deployments()

    operator_pods.kill(layout, pod)
    killed_at = time.monotonic()
    heir = await operator_pods.leader(space, other_than=identity, within_s=60)
    takeover_s = time.monotonic() - killed_at
    record_property("takeover_s", f"{takeover_s:.1f}")
    assert heir["metadata"]["uid"] != pod["metadata"]["uid"]
    await operator_pods.leader_has_looked(space)
    assert (await space.service())["status"] == status
    assert await space.versions() == versions
    assert takeover_s <= TAKEOVER_S

    await space.apply(scaling={"minReplicas": 2, "maxReplicas": 2})
    await space.serving(replicas=2)
    (scaled,) = await space.deployments()
    assert scaled["metadata"]["generation"] == deployment["metadata"]["generation"] + 1
    assert lives.items() <= (await space.lives()).items()


@pytest.mark.parametrize("change", ["a restart", "an upgrade with another value"])
async def test_no_change_of_the_operator_restarts_an_instance(space, on, change):
    """Case O11."""
    await operator_pods.both_ready(space)
    await space.at_rest()
    await space.apply(queue={"maxRequests": 7 if change == "a restart" else 8})
    await space.settled()
    await operator_pods.leader_has_looked(space)
    identity = await operator_pods.holder(space)
    lives, versions = await space.lives(), await space.versions()
    if change == "a restart":
        which = ("deployment", "-l", operator_pods.SELECTOR, "-n", install.NAMESPACE)
        await asyncio.to_thread(on.kubectl, "rollout", "restart", *which)
        await asyncio.to_thread(on.kubectl, "rollout", "status", *which, "--timeout=120s", deadline_s=130)
    else:
        words = ("upgrade", install.RELEASE, str(install.ROOT / "charts" / "stoker"), "--reuse-values")
        where = ("-n", install.NAMESPACE, "--set", "log.level=debug", "--wait", "--timeout=120s")
        await asyncio.to_thread(on.helm, *words, *where, deadline_s=150)
    await operator_pods.leader(space, other_than=identity)
    await operator_pods.leader_has_looked(space)
    assert await space.lives() == lives
    assert await space.versions() == versions
    for service in await space.list(INFERENCE_SERVICES):
        assert service["status"]["observedGeneration"] == service["metadata"]["generation"]


async def _only(space, revision):
    assert [d["metadata"]["name"] for d in await space.deployments()] == [revision]
