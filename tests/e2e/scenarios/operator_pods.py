"""The operator's replicas: which one leads, and its end without a word."""

import contextlib
import os
import signal
from pathlib import Path

from e2e import install
from e2e.cluster import cgroups
from tests.cluster.world import eventually
from tests.e2e.scenarios.clients import session

from stoker.kube.resources import INFERENCE_SERVICES, LEASES, PODS

SELECTOR = "app.kubernetes.io/component=operator"
_NAMESPACE = install.NAMESPACE


async def replicas(space, selector=SELECTOR):
    """Pods of the operator, or of another part of the release, that are Ready and stay, by name."""
    found = await space.client.list(PODS, namespace=_NAMESPACE, label_selector=selector)
    return {
        pod["metadata"]["name"]: pod
        for pod in found
        if "deletionTimestamp" not in pod["metadata"]
        and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
    }


async def both_ready(space):
    """The two replicas, once both are Ready."""

    async def check():
        ready = await replicas(space)
        assert len(ready) == 2, sorted(ready)
        return ready

    return await eventually(check, within_s=90)


async def holder(space):
    """Identity in the Lease, which starts with the name of the pod."""
    lease = await space.client.get(LEASES, namespace=_NAMESPACE, name="stoker-operator")
    return lease["spec"].get("holderIdentity") or ""


async def leader(space, *, other_than="", within_s=30):
    """The pod that holds the Lease, once it is Ready and its identity is not a certain one."""

    async def check():
        identity, ready = await holder(space), await replicas(space)
        name = identity.rpartition("_")[0]
        assert identity != other_than, identity
        assert name in ready, f"{identity} leads, {sorted(ready)} are Ready"
        return ready[name]

    return await eventually(check, within_s=within_s)


def kill(layout, *pods):
    """SIGKILL to every process of these pods at once: nothing is given back, nothing is said."""
    marks = [pod["metadata"]["uid"] for pod in pods]
    for pid in cgroups.members(layout.network.cgroup):
        # A process goes with the first one of its container.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            text = Path(f"/proc/{pid}/cgroup").read_text()
            if any(mark in text for mark in marks):
                os.kill(pid, signal.SIGKILL)


async def leader_has_looked(space):
    """Wait until the replica that leads has reconciled every service once and has nothing left to do."""

    async def check():
        url = f"http://{(await leader(space))['status']['podIP']}:8080/metrics"
        async with session(keep_alive=False) as client, client.get(url) as response:
            page = await response.text()
        values = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
        done = float(values.get('stoker_reconcile_total{result="done"}', 0))
        services = len(await space.client.list(INFERENCE_SERVICES, namespace=None))
        assert done >= services, f"{done} of {services} reconciled"
        assert float(values["stoker_workqueue_depth"]) == float(values["stoker_workqueue_working"]) == 0

    await eventually(check, within_s=30)
