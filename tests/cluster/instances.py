"""What a kubelet and an instance would do, where there is no node: pods become Ready and answer.

The pods are real objects that the cluster's own controllers made. Their status is written as a
kubelet writes it, each with a loopback address of its own, where `/state` is answered.
"""

import asyncio
import contextlib
import random

from aiohttp import web

from stoker.api.names import ENGINE_CONTAINER, PROBE_PORT, REVISION_LABEL
from stoker.kube.errors import KubeError
from stoker.kube.resources import PODS

_POLL_S = 0.1


class Instances:
    """Runs the pods of one namespace until it is closed."""

    def __init__(self, client, namespace):
        self._client = client
        self._namespace = namespace
        # Loopback has 16 million addresses; somebody else's tests use the same port of others.
        network = f"127.{random.randrange(1, 255)}.{random.randrange(255)}"
        self._addresses = (f"{network}.{host}" for host in range(1, 255))
        self._servers = []
        self.paused = False
        """While it is true, no pod makes any progress."""
        self.never_ready = set()
        """Revisions whose pods start and never become Ready."""
        self.says = {}
        """By revision, what its instances say instead of the truth."""
        self._started = {}

    @contextlib.asynccontextmanager
    async def running(self):
        """Do it in the background."""
        task = asyncio.create_task(self._run())
        try:
            yield self
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            for server in self._servers:
                await server.cleanup()

    async def _run(self):
        while True:
            # A pod that went away meanwhile is no longer of interest.
            with contextlib.suppress(KubeError):
                for pod in await self._client.list(PODS, namespace=self._namespace):
                    if not self.paused:
                        await self._look_after(pod)
            await asyncio.sleep(_POLL_S)

    async def _look_after(self, pod):
        revision = pod["metadata"].get("labels", {}).get(REVISION_LABEL)
        ready = revision not in self.never_ready
        uid = pod["metadata"]["uid"]
        if revision is None or self._started.get(uid) == ready:
            return
        address = pod["status"].get("podIP") or await self._answer_for(revision)
        await self._client.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {key: pod["metadata"][key] for key in ("namespace", "name", "uid")},
                "status": _status(pod, address, ready=ready),
            },
            field_manager="kubelet",
            subresource="status",
        )
        self._started[uid] = ready

    async def _answer_for(self, revision):
        async def state(_):
            truth = {
                "ready": revision not in self.never_ready,
                "draining": False,
                "stage": "Serving" if revision not in self.never_ready else "Loading",
                "stages": [],
                "revision": revision,
                "modelVersion": "a09a354",
                "weightsDigest": "sha256:" + "0" * 64,
                "servedModels": [],
                "inFlight": 0,
                "engine": {"name": "none", "version": "0"},
                "capacity": None,
            }
            return web.json_response(truth | self.says.get(revision, {}))

        application = web.Application()
        application.router.add_get("/state", state)
        server = web.AppRunner(application)
        await server.setup()
        self._servers.append(server)
        address = next(self._addresses)
        await web.TCPSite(server, address, PROBE_PORT).start()
        return address


def _status(pod, address, *, ready):
    since = {"lastTransitionTime": pod["metadata"]["creationTimestamp"]}
    conditions = [
        {"type": "PodScheduled", "status": "True", **since},
        {"type": "Initialized", "status": "True", **since},
        {"type": "ContainersReady", "status": str(ready), **since},
        {"type": "Ready", "status": str(ready), **since},
    ]
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "containerID": f"none://{pod['metadata']['uid']}/{container['name']}",
            "restartCount": 0,
            "ready": ready,
            "started": True,
            "state": {"running": {"startedAt": pod["metadata"]["creationTimestamp"]}},
        }
        for container in pod["spec"]["containers"]
        if container["name"] == ENGINE_CONTAINER
    ]
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": pod["metadata"]["creationTimestamp"],
        "conditions": conditions,
        "containerStatuses": containers,
    }
