"""The gateway of the release: where clients reach it, and what its replicas count."""

from dataclasses import dataclass

from e2e import install
from tests.cluster.world import eventually
from tests.e2e.scenarios import operator_pods
from tests.e2e.scenarios.clients import session
from tests.e2e.scenarios.space import Space

from stoker.kube.resources import SERVICES

SELECTOR = "app.kubernetes.io/component=gateway"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """All replicas together, and each by its pod."""

    space: Space
    """Whose services are asked about."""
    url: str
    """Where clients of the machine reach it: the address of its Service."""

    async def pods(self):
        """Both replicas, once they are Ready, by name."""

        async def check():
            ready = await operator_pods.replicas(self.space, selector=SELECTOR)
            assert len(ready) == 2, sorted(ready)
            return ready

        return await eventually(check, within_s=60)

    async def count(self, metric, **labels):
        """Sum of a metric over all replicas, and over the series that have these labels."""
        return sum(
            [await count(address(pod, port=8080), metric, **labels) for pod in (await self.pods()).values()]
        )


async def find(space):
    """The gateway of the release."""
    service = await space.client.get(SERVICES, namespace=install.NAMESPACE, name="stoker-gateway")
    return Gateway(space=space, url=f"http://{service['spec']['clusterIP']}")


def address(pod, *, port=8000):
    """Where a pod is reached; the machine has a route to addresses of pods."""
    return f"http://{pod['status']['podIP']}:{port}"


async def count(url, metric, **labels):
    """Sum of the series of a metric that have these labels, on one page."""
    async with session(keep_alive=False) as client, client.get(f"{url}/metrics") as response:
        lines = (await response.text()).splitlines()
    wanted = [f'{name}="{value}"' for name, value in labels.items()]
    values = [
        line.rsplit(" ", 1)[1]
        for line in lines
        if line.startswith((f"{metric}{{", f"{metric} ")) and all(label in line for label in wanted)
    ]
    return sum(map(float, values))
