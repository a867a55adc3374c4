"""Operators that come and go: restart, two of them, a killed leader, one namespace only."""

import asyncio
import json
import os
import signal
import time
import uuid
from pathlib import Path

import pytest
from e2e.cluster import cluster, control_plane, layout
from e2e.cluster.processes import Processes
from tests.cluster.operator_process import restricted_kubeconfig, start_operator
from tests.cluster.world import World, eventually, the_only

from stoker.kube import access
from stoker.kube.client import Client
from stoker.kube.resources import DEPLOYMENTS, LEASES

TAKEOVER_S = 20
OUTAGE_S = 6
"""Shorter than the 10 s after which a leader that cannot renew its Lease gives up."""
CRDS = Path(__file__).parents[2] / "crds"
SERVICES = ("a", "b", "c")


@pytest.fixture
async def world(api_server, namespace):
    async with Client(await access.load(str(api_server))) as client:
        yield World(client=client, namespace=namespace)


async def test_a_restarted_operator_writes_nothing_and_finds_what_changed_meanwhile(world, start):
    """Case O11."""
    first = start("first")
    for name in SERVICES:
        await world.apply(name)
        await world.settled(name)
    before = await world.at_rest()
    assert first.terminate() == 0

    second = start("second")
    await eventually(lambda: _has_looked(second, times=len(SERVICES)), within_s=20)
    assert second.writes() == 0
    assert await world.versions() == before
    for name in SERVICES:
        service = await world.service(name)
        assert service["status"]["observedGeneration"] == service["metadata"]["generation"]
    assert second.terminate() == 0

    await world.apply("a", replicas=3)
    start("third")

    async def caught_up():
        assert the_only(await world.deployments("a"))["spec"]["replicas"] == 3

    await eventually(caught_up, within_s=20)


async def test_an_operator_that_stops_gives_its_lease_back(world, start, home):
    operator = start("first")
    await eventually(lambda: _leads(operator), within_s=10)
    assert operator.terminate() == 0
    lease = await world.client.get(LEASES, namespace=home, name="stoker-operator")
    assert lease["spec"]["holderIdentity"] == ""
    successor = start("second")
    await eventually(lambda: _leads(successor), within_s=5)


async def test_of_two_operators_one_writes(world, start):
    first = start("first")
    await eventually(lambda: _leads(first), within_s=10)
    standby = start("standby")
    for name in SERVICES:
        await world.apply(name)
        await world.settled(name)
    await eventually(lambda: _is_idle(first), within_s=10)
    assert standby.writes() == 0
    assert standby.reconciles() == 0
    # Three services with four children each; every child was written once.
    children = await world.children()
    assert len(children) == 4 * len(SERVICES)
    for child in children.values():
        assert child["metadata"].get("generation", 1) == 1


async def test_a_killed_leader_is_followed_within_20_seconds_and_nothing_is_written_twice(world, start):
    leader = start("first")
    await eventually(lambda: _leads(leader), within_s=10)
    standby = start("standby")
    for name in SERVICES:
        await world.apply(name)
        await world.settled(name)
    before = await world.at_rest()

    leader.kill()
    killed_at = time.monotonic()
    await world.apply("a", replicas=2)
    await eventually(lambda: _leads(standby), within_s=TAKEOVER_S)
    took_over_after_s = time.monotonic() - killed_at

    async def edited():
        assert the_only(await world.deployments("a"))["spec"]["replicas"] == 2

    await eventually(edited, within_s=5)
    await eventually(lambda: _has_looked(standby, times=len(SERVICES)), within_s=10)
    assert took_over_after_s <= TAKEOVER_S
    after = await world.at_rest()
    changed = {name for kind, name in after if after[kind, name] != before.get((kind, name))}
    deployment = the_only(await world.deployments("a"))
    assert changed == {"a", deployment["metadata"]["name"]}
    # Made by the first, changed once by the second.
    assert deployment["metadata"]["generation"] == 2


async def test_an_operator_whose_lease_was_taken_ends_and_says_so(world, start, home, kubectl):
    operator = start("first")
    await eventually(lambda: _leads(operator), within_s=10)
    patch = json.dumps({"spec": {"holderIdentity": "somebody-else"}})
    kubectl("patch", "lease", "stoker-operator", "-n", home, "--type=merge", "-p", patch)
    assert operator.process.wait(20) == 1
    assert "The Lease stoker-operator was taken by somebody-else." in operator.log.read_text()


async def test_an_operator_for_one_namespace_leaves_the_others_alone(world, start, kubectl):
    other = World(client=world.client, namespace=f"test-{uuid.uuid4().hex[:8]}")
    kubectl("create", "namespace", other.namespace)
    operator = start("first")
    await other.apply()
    await world.apply()
    await world.settled()
    await eventually(lambda: _is_idle(operator), within_s=10)
    assert "status" not in await other.service() or "conditions" not in (await other.service())["status"]
    assert await other.list(DEPLOYMENTS) == []
    assert "is forbidden: User" not in operator.log.read_text()
    kubectl("delete", "namespace", other.namespace, "--wait=false")


async def test_an_operator_without_permissions_ends_and_says_what_to_do(api_server, kubectl, tmp_path, home):
    kubeconfig = restricted_kubeconfig(api_server, kubectl, tmp_path, namespace=home, watched=home)
    operator = start_operator(kubeconfig, tmp_path, namespace=home, name="everywhere")
    assert operator.process.wait(30) == 1
    told = operator.log.read_text()
    assert "listing inferenceservices in all namespaces" in told
    assert "Bind the operator's ClusterRole to it" in told


async def test_an_operator_waits_for_its_kind(tmp_path):
    state = tmp_path / "bare"
    try:
        bare = cluster.up(state, nodes=0)
        operator = start_operator(bare.kubeconfig, tmp_path, namespace="default", name="early")

        async def waits():
            assert "waiting for the CustomResourceDefinition" in operator.log.read_text()

        await eventually(waits, within_s=30)
        assert operator.get("/healthz")[0] == 200
        assert operator.get("/readyz")[0] == 503
        control_plane.kubectl(bare, "apply", "--server-side", "-f", str(CRDS))
        operator.wait_until_ready()
        async with Client(await access.load(str(bare.kubeconfig))) as client:
            world = World(client=client, namespace="default")
            await world.apply()
            await world.settled()
        assert operator.terminate() == 0
    finally:
        cluster.down(state)


async def test_a_short_outage_of_the_api_server_costs_no_restart(world, start, api_server):
    operator = start("first")
    await world.apply()
    await world.settled()
    server = Processes(state=layout.load(api_server.parent).state).get("kube-apiserver")
    os.kill(server.pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(OUTAGE_S)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    await world.apply(replicas=2)

    async def edited():
        assert the_only(await world.deployments())["spec"]["replicas"] == 2

    await eventually(edited, within_s=20)
    assert operator.process.poll() is None
    assert operator.leads()


async def _is_idle(operator):
    assert operator.is_idle()


async def _leads(operator):
    assert operator.leads(), operator.log.read_text()


async def _has_looked(operator, *, times):
    assert operator.reconciles() >= times
    assert operator.is_idle()
