"""What does the operator cost, and how fast does an edit arrive? `make bench` runs it.

On a control plane without nodes: the operator is a process of its own, its CPU time is what the
kernel accounts to it, and its API calls are what its own metrics count. Times include the API
server, which shares the machine. Nothing here passes or fails; it prints a table and writes
`build/bench/operator.json`.
"""

import asyncio
import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from e2e.cluster import cluster, control_plane
from rich.console import Console
from rich.table import Table
from tests.cluster.operator_process import start_operator
from tests.cluster.world import World, eventually

from stoker.api.names import SERVICE_LABEL
from stoker.kube import access
from stoker.kube.client import Client
from stoker.kube.resources import DEPLOYMENTS, INFERENCE_SERVICES

ROOT = Path(__file__).parents[2]
NAMESPACE = "bench"
PATIENCE_S = 600
REST_S = 20
RESYNC_S = 5
"""Short, so that the rest is full of looks that find nothing to do."""
AT_ONCE = 16
MIB = 1024 * 1024

CONSOLE = Console(stderr=True)


@dataclass
class Figures:
    """What was measured; the names are those of the JSON file."""

    services: int
    instances_per_service: int
    edit_to_deployment_p50_s: float = 0.0
    edit_to_deployment_p99_s: float = 0.0
    burst_edit_to_deployment_p50_s: float = 0.0
    """All services edited at once."""
    burst_edit_to_deployment_p99_s: float = 0.0
    writes_at_rest: int = 0
    reconciles_at_rest: int = 0
    cpu_per_noop_reconcile_ms: float = 0.0
    """All CPU of the process at rest, its watches and Lease too, over its reconciles."""
    api_calls_per_reconcile: float = 0.0
    start_to_all_observed_s: float = 0.0
    """From the start of the process to every service reconciled once."""
    memory_mib: float = 0.0


class Bench:
    """One cluster, one namespace, many services."""

    def __init__(self, world, kubeconfig, folder, figures):
        self.world = world
        self.kubeconfig = kubeconfig
        self.folder = folder
        self.figures = figures
        self.names = [f"chat-{n:04d}" for n in range(figures.services)]

    def start(self, name, **settings):
        operator = start_operator(self.kubeconfig, self.folder, namespace=NAMESPACE, name=name, **settings)
        operator.wait_until_ready()
        return operator

    async def each(self, do):
        """Do something for every service, some at a time; what it returned."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def gated(name):
            async with gate:
                return await do(name)

        return await asyncio.gather(*map(gated, self.names))

    async def create_all(self, operator):
        replicas = self.figures.instances_per_service
        await self.each(lambda name: self.world.apply(name, replicas=replicas))
        wanted = self.figures.services * replicas

        async def all_made():
            made = sum(d["status"].get("replicas", 0) for d in await self.world.list(DEPLOYMENTS))
            assert made == wanted, f"{made} of {wanted} pods"
            assert operator.is_idle()

        await eventually(all_made, within_s=PATIENCE_S)

    async def edit(self, names, replicas):
        """Seconds, for each service, from the answer to a person's edit until its Deployment says it."""
        edited_at, written_at = {}, {}

        async def edit(name):
            await self.world.apply(name, replicas=replicas)
            edited_at[name] = time.monotonic()

        # One service is looked at often and cheaply, many with one request now and then: looking
        # must not take the processor from the operator.
        alone = len(names) == 1
        selector = f"{SERVICE_LABEL}={names[0]}" if alone else SERVICE_LABEL

        async def look():
            for deployment in await self.world.client.list(
                DEPLOYMENTS, namespace=NAMESPACE, label_selector=selector
            ):
                name = deployment["metadata"]["ownerReferences"][0]["name"]
                if name in names and deployment["spec"]["replicas"] == replicas:
                    written_at.setdefault(name, time.monotonic())
            assert len(written_at) == len(names)

        edits = asyncio.gather(*map(edit, names))
        await eventually(look, within_s=PATIENCE_S, poll_s=0.01 if alone else 0.25)
        await edits
        return [max(written_at[name] - edited_at[name], 0.0) for name in names]

    async def measure_edits(self):
        replicas = self.figures.instances_per_service + 1
        times_s = [time_s for name in self.names[:100] for time_s in await self.edit([name], replicas)]
        self.figures.edit_to_deployment_p50_s, self.figures.edit_to_deployment_p99_s = _percentiles(times_s)

    async def measure_burst(self):
        times_s = await self.edit(self.names[:100], self.figures.instances_per_service)
        figures = self.figures
        figures.burst_edit_to_deployment_p50_s, figures.burst_edit_to_deployment_p99_s = _percentiles(times_s)

    async def measure_rest(self, operator):
        await eventually(lambda: _idle(operator), within_s=PATIENCE_S)
        before = _readings(operator)
        versions = await self.world.versions()
        await asyncio.sleep(REST_S)
        after = _readings(operator)
        reconciles = after["reconciles"] - before["reconciles"]
        now = await self.world.versions()
        figures = self.figures
        figures.writes_at_rest = sum(now[name] != version for name, version in versions.items())
        figures.writes_at_rest = max(figures.writes_at_rest, int(after["writes"] - before["writes"]))
        figures.reconciles_at_rest = int(reconciles)
        figures.cpu_per_noop_reconcile_ms = 1000 * (after["cpu_s"] - before["cpu_s"]) / reconciles
        figures.api_calls_per_reconcile = (after["calls"] - before["calls"]) / reconciles
        figures.memory_mib = operator.memory_bytes() / MIB

    async def measure_start(self):
        started_at = time.monotonic()
        operator = self.start("restarted", resync_seconds=RESYNC_S)

        async def all_observed():
            assert operator.reconciles() >= self.figures.services

        await eventually(all_observed, within_s=PATIENCE_S)
        self.figures.start_to_all_observed_s = time.monotonic() - started_at
        return operator


async def _idle(operator):
    assert operator.is_idle()


def _readings(operator):
    """Counters of the operator; calls are those of reconciles, without Lease and resync."""
    calls = operator.samples("stoker_api_requests_total")
    return {
        "reconciles": operator.reconciles(),
        "writes": operator.writes(),
        "cpu_s": operator.cpu_s(),
        "calls": sum(
            count
            for (_, resource, verb), count in calls.items()
            if resource != "leases" and (resource, verb) != (INFERENCE_SERVICES.plural, "list")
        ),
    }


def _percentiles(times_s):
    cuts = statistics.quantiles(times_s, n=100, method="inclusive")
    return cuts[49], cuts[98]


async def measure(services, instances, kubeconfig, folder):
    """All figures, one part after the other."""
    figures = Figures(services=services, instances_per_service=instances)
    async with Client(await access.load(str(kubeconfig))) as client:
        bench = Bench(World(client=client, namespace=NAMESPACE), kubeconfig, folder, figures)
        operator = bench.start("first")
        CONSOLE.print(f"{services} services with {instances} instances each")
        await bench.create_all(operator)
        CONSOLE.print("edits, one after the other")
        await bench.measure_edits()
        CONSOLE.print("edits, all at once")
        await bench.measure_burst()
        operator.terminate()
        CONSOLE.print("start with everything there")
        operator = await bench.measure_start()
        CONSOLE.print(f"{REST_S} s at rest")
        await bench.measure_rest(operator)
        operator.terminate()
    return figures


@click.command()
@click.option("--services", default=100, show_default=True)
@click.option("--instances", default=1, show_default=True, help="Instances of each service.")
@click.option("--output", type=click.Path(path_type=Path), default=ROOT / "build/bench/operator.json")
def main(services, instances, output):
    """Measure the operator on a control plane of its own."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "cluster"
        try:
            up = cluster.up(state, nodes=0)
            control_plane.kubectl(up, "apply", "--server-side", "-f", str(ROOT / "crds"))
            control_plane.kubectl(up, "create", "namespace", NAMESPACE)
            figures = asyncio.run(measure(services, instances, up.kubeconfig, Path(folder)))
        finally:
            cluster.down(state)
    results = asdict(figures)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=2) + "\n")
    table = Table("figure", "value", title="Operator")
    for name, value in results.items():
        table.add_row(name, f"{value:.3f}" if isinstance(value, float) else str(value))
    Console().print(table)


if __name__ == "__main__":
    main()
