"""What the operator's tests see of the cluster: one namespace, read and written as a user would."""

import asyncio
import copy
import time
from dataclasses import dataclass, field

from stoker.api import names
from stoker.kube.client import Client
from stoker.kube.resources import CHILDREN, DEPLOYMENTS, EVENTS, INFERENCE_SERVICES, PODS, SERVICES, Resource

SPEC = {
    # A claim is read by nobody but its pods, and here there are none: no test waits for a name server.
    "model": {"uri": "pvc://weights/tiny", "revision": "a09a354"},
    "accelerator": {"type": "cpu"},
}
REPLICA_SETS = Resource(api_version="apps/v1", kind="ReplicaSet", plural="replicasets")


async def eventually(check, *, within_s, poll_s=0.05):
    """What `check` returns once it neither raises an AssertionError nor returns a coroutine that does.

    The last AssertionError is what the test fails with.
    """
    give_up_at = time.monotonic() + within_s
    while True:
        try:
            return await check()
        except AssertionError:
            if time.monotonic() > give_up_at:
                raise
        await asyncio.sleep(poll_s)


def the_only(items):
    """The item of a list that must have exactly one."""
    assert len(items) == 1, [item["metadata"]["name"] for item in items]
    return items[0]


@dataclass
class World:
    """One namespace, and the client of an administrator."""

    client: Client
    namespace: str
    spec: dict = field(default_factory=lambda: SPEC)
    """What a service is made of where a test says nothing else."""
    patience_s: float = 20
    """How long instances may take until they serve."""

    async def apply(self, name="chat", *, manager="kubectl", **spec):
        """Apply a service as `kubectl apply --server-side` would; its fields are those of `spec`."""
        return await self.client.apply(
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "metadata": {"namespace": self.namespace, "name": name},
                "spec": self.spec | spec,
            },
            field_manager=manager,
        )

    async def service(self, name="chat"):
        found = await self.client.get(INFERENCE_SERVICES, namespace=self.namespace, name=name)
        assert found is not None, f"no InferenceService {name}"
        return found

    async def list(self, resource):
        return await self.client.list(resource, namespace=self.namespace)

    async def get(self, resource, name):
        found = await self.client.get(resource, namespace=self.namespace, name=name)
        assert found is not None, f"no {resource.kind} {name}"
        return found

    async def deployments(self, name="chat"):
        """The Deployments of a service, oldest first."""
        label = names.child_name(name)
        found = [
            d for d in await self.list(DEPLOYMENTS) if d["metadata"]["labels"][names.SERVICE_LABEL] == label
        ]
        return sorted(found, key=lambda d: (d["metadata"]["creationTimestamp"], d["metadata"]["name"]))

    async def candidate(self, old, name="chat"):
        """Name of the one revision beside `old`, as soon as it is there."""

        async def check():
            return the_only([d for d in await self.deployments(name) if d["metadata"]["name"] != old])

        return (await eventually(check, within_s=10))["metadata"]["name"]

    async def children(self):
        """Everything that the operator made, by kind and name."""
        found = [
            obj
            for resource in CHILDREN
            if resource is not PODS
            for obj in await self.list(resource)
            if names.SERVICE_LABEL in obj["metadata"].get("labels", {})
        ]
        return {(obj["kind"], obj["metadata"]["name"]): obj for obj in found}

    async def condition(self, type_, name="chat"):
        """A condition that speaks of the present generation."""
        service = await self.service(name)
        for condition in service.get("status", {}).get("conditions", ()):
            if condition["type"] == type_:
                assert condition["observedGeneration"] == service["metadata"]["generation"], condition
                return condition
        raise AssertionError(f"no condition {type_}: {service.get('status')}")

    async def settled(self, name="chat"):
        """The service, once its status speaks of its present generation."""

        async def check():
            service = await self.service(name)
            assert service.get("status", {}).get("observedGeneration") == service["metadata"]["generation"]
            return service

        return await eventually(check, within_s=10)

    async def serving(self, name="chat", *, replicas=1, revision=None):
        """The service, once all its instances are Ready and the wanted revision has the traffic."""

        async def check():
            rolled_out = await self.condition("RolledOut", name)
            assert rolled_out["status"] == "True", rolled_out
            service = await self.service(name)
            assert service["status"]["readyReplicas"] == replicas, service["status"]
            selected = await self.selected(name)
            assert revision in (None, selected), selected
            return service

        return await eventually(check, within_s=self.patience_s)

    async def selected(self, name="chat"):
        """The revision that the Service selects."""
        return (await self.get(SERVICES, names.child_name(name)))["spec"]["selector"][names.REVISION_LABEL]

    async def patch(self, obj, **fields):
        """Change fields of an object as a person with `kubectl edit` would; takes them over."""
        metadata = {key: obj["metadata"][key] for key in ("namespace", "name")}
        identity = {key: obj[key] for key in ("apiVersion", "kind")}
        return await self.client.apply(identity | {"metadata": metadata} | fields, field_manager="a-person")

    async def events(self, name="chat"):
        """Reasons of the Events on a service."""
        return [e["reason"] for e in await self.list(EVENTS) if e.get("regarding", {}).get("name") == name]

    async def at_rest(self):
        """`versions`, once they have been the same for half a second."""

        async def check():
            before = await self.versions()
            await asyncio.sleep(0.5)
            assert await self.versions() == before
            return before

        return await eventually(check, within_s=15)

    async def versions(self):
        """resourceVersion of the service objects and all their children: it changes with every write."""
        objects = [*(await self.list(INFERENCE_SERVICES)), *(await self.children()).values()]
        return {
            (obj["kind"], obj["metadata"]["name"]): obj["metadata"]["resourceVersion"]
            for obj in copy.deepcopy(objects)
        }
