"""What a scenario sees of the cluster: one namespace, read and written as its user would."""

import asyncio
from dataclasses import dataclass, field

from e2e import model_server
from e2e.file_server import manifests
from e2e.target import Target
from tests.cluster.world import World, eventually, the_only

from stoker.api import names
from stoker.kube.resources import PODS, SERVICES

MODELS = "models"
"""Namespace of the model registry."""
STAND_IN = "localhost/stand-in-engine:dev"
FIRST_BYTE_S = 6.0
"""After so long without an answer the gateways take an engine to hang: no engine here is that slow."""


def model(path="tiny", **fields):
    """`spec.model` for a path of the registry, such as `~status=403/tiny`."""
    uri = manifests.url(path, namespace=MODELS)
    return {"uri": uri, "credentialsSecret": model_server.SECRET} | fields


def engine(*args, **env):
    """`spec.engine` with the stand-in engine, arguments and environment."""
    return {
        "image": STAND_IN,
        "args": list(args),
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }


@dataclass(kw_only=True)
class Space(World):
    """A namespace with kubectl, and with the addresses of what runs in it."""

    on: Target
    spec: dict = field(
        default_factory=lambda: {"model": model(), "engine": engine(), "accelerator": {"type": "cpu"}}
    )
    patience_s: float = 60

    async def kubectl(self, *words, **options):
        """What kubectl prints, while other tasks go on."""
        return await asyncio.to_thread(self.on.kubectl, "-n", self.namespace, *words, **options)

    async def url(self, name="chat"):
        """Where clients reach a service; the machine has a route to Service addresses."""
        service = await self.get(SERVICES, names.child_name(name))
        return f"http://{service['spec']['clusterIP']}"

    async def pods(self, name="chat"):
        """The pods of a service, by name, those that are leaving too."""
        label = names.child_name(name)
        found = await self.list(PODS)
        mine = [p for p in found if p["metadata"].get("labels", {}).get(names.SERVICE_LABEL) == label]
        return sorted(mine, key=lambda pod: pod["metadata"]["name"])

    async def at_rest(self, name="chat", **spec):
        """Apply a service and wait until all of it serves, nothing of what it was before is left, and its
        status says so."""
        await self.apply(name, **spec)
        await self.serving(name, replicas=spec.get("replicas", 1))

        async def check():
            deployment = the_only(await self.deployments(name))
            left = [pod["metadata"]["name"] for pod in await self.pods(name)]
            assert len(left) == deployment["spec"]["replicas"], left
            status = (await self.service(name))["status"]
            assert [one["name"] for one in status["instances"] if one["state"] == "Serving"] == left
            assert len(status["instances"]) == len(left), status["instances"]
            phases = [revision["phase"] for revision in status["revisions"]]
            assert [phase for phase in phases if phase != "Retired"] == ["Serving"], phases
            assert status.get("capacity", {}).get("source") == "measured", status.get("capacity")

        await eventually(check, within_s=self.patience_s)
        return await self.service(name)

    async def lives(self, name="chat"):
        """Uid and number of restarts of each pod: the same as long as nothing touched an instance."""
        return {
            pod["metadata"]["uid"]: sum(c["restartCount"] for c in pod["status"].get("containerStatuses", []))
            for pod in await self.pods(name)
        }

    async def reason(self, type_, reason, *, within_s=60, name="chat"):
        """The condition of a type, once it has a reason and speaks of the present spec."""

        async def check():
            condition = await self.condition(type_, name)
            assert condition["reason"] == reason, condition
            return condition

        return await eventually(check, within_s=within_s)
