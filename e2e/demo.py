"""`make demo`: from nothing to a chat answer of a model that was applied with kubectl.

Each step prints what it does and how long it has taken so far. The cluster stays up afterwards, for
you to look around; a second run takes what is there.
"""

import json
from pathlib import Path

import click
import yaml
from rich.console import Console

from e2e import chat, command_line, flood, install, model_server, target
from e2e.cluster import cluster, images, programs
from e2e.cluster.command import wait_for
from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import Progress
from e2e.target import Target

STATE = Path("/var/tmp/stoker/demo")
NAMESPACE = "stoker-demo"
EXAMPLE = install.ROOT / "examples" / "chat.yaml"
SERVICE = yaml.safe_load(EXAMPLE.read_text())["metadata"]["name"]
_EMBEDDED_STEPS, _COMMON_STEPS = 4, 6
_READY_DEADLINE_S = 600
_FLOOD = 300
_QUESTION = "What keeps an inference fleet warm?"

console = Console(stderr=True, highlight=False)


@click.command(help=__doc__)
@click.option(
    "--cluster",
    "where",
    type=click.Choice(["embedded", "current"]),
    default="embedded",
    show_default=True,
    help="A Kubernetes that the demo builds and starts, or the one that kubectl talks to now.",
)
@click.option("--registry", default="localhost", show_default=True, help="Where that cluster has the images.")
def main(where: str, registry: str) -> None:
    """The steps, in order."""
    if where == "embedded":
        steps = Progress(total=_EMBEDDED_STEPS + _COMMON_STEPS, mark="==> ")
        on = _embedded(steps)
    else:
        if registry == "localhost":
            raise ClusterError(
                "a cluster of your own pulls its images: build them (docs/install.md), push them, and give "
                "their place with `make demo CLUSTER=current REGISTRY=...`"
            )
        steps = Progress(total=_COMMON_STEPS, mark="==> ")
        on = target.current()

    steps.step("helm install charts/stoker: operator and gateway, two replicas of each")
    install.install(on, registry=registry, version=images.version(images.find("stoker")))
    steps.step(f"a model server in namespace {NAMESPACE}, with a tiny Llama")
    install.make_namespace(on, NAMESPACE)
    model_server.start(on, namespace=NAMESPACE, certificates=STATE / "model-server")
    steps.step(f"kubectl apply -f {EXAMPLE.relative_to(install.ROOT)}")
    on.kubectl("apply", "-n", NAMESPACE, "-f", str(EXAMPLE))
    steps.step("wait until it is Ready: weights, vLLM's start, a first token")
    _wait_until_ready(on)
    with chat.port_forward(on, namespace=install.NAMESPACE, service=install.GATEWAY) as port:
        steps.step("a streamed chat request through the gateway, and its record")
        _converse(on, port)
        steps.step(f"{_FLOOD} requests at once: what the queue has no place for is told when to come back")
        _flood(port)
    _say_goodbye(on)


def _embedded(steps: Progress) -> Target:
    """A cluster of one node on this machine, with the images on it."""
    steps.step("build Kubernetes from its Go modules (about 10 minutes the first time, nothing later)")
    programs.build()
    steps.step("build the images (about 12 minutes the first time: vLLM for CPU is 5 GB)")
    wanted = [images.find(name) for name in ("stoker", "file-server", "stoker-serving-cpu")]
    images.build(wanted)
    steps.step("start a Kubernetes with one node")
    layout = cluster.up(STATE, nodes=1)
    steps.step("bring the images to the node")
    for image in wanted:
        images.load(image.name, cluster.running_nodes(layout))
    return target.embedded(layout.kubeconfig)


def _wait_until_ready(on: Target) -> None:
    """Show every change of the condition Ready until it is True for the spec that was applied."""
    shown = ""

    def missing() -> str | None:
        nonlocal shown
        service = on.get("infer", SERVICE, "-n", NAMESPACE)
        status = service["status"]
        ready = next((one for one in status.get("conditions", []) if one["type"] == "Ready"), None)
        if ready is None:
            return "the operator has not looked at it yet"
        said = f"{ready['reason']}: {ready['message']}"
        if said != shown:
            console.print(f"    {status.get('ready', '0/0')}  {said}")
            shown = said
        current = status["observedGeneration"] == service["metadata"]["generation"]
        return None if current and ready["status"] == "True" else said

    wait_for(f"{SERVICE} to be Ready", missing, deadline_s=_READY_DEADLINE_S)


def _converse(on: Target, port: int) -> None:
    """Ask, print the answer as it streams, and what is known of the request."""
    console.print(f"\n[bold]you[/]    {_QUESTION}\n[bold]{SERVICE}[/]   ", end="")
    answer = chat.ask(
        port,
        model=SERVICE,
        question=_QUESTION,
        max_tokens=48,
        show=lambda piece: console.print(piece, end="", markup=False),
    )
    status = on.get("infer", SERVICE, "-n", NAMESPACE)["status"]
    console.print(
        f"\n\n[dim](the weights are random: the words mean nothing, the path they took is real)[/]\n"
        f"model version         {status['modelVersion']}\n"
        f"time to first token   {answer.time_to_first_token_s * 1000:.0f} ms\n"
        f"tokens                {answer.tokens} in {answer.total_s:.2f} s\n"
        f"its record            ",
        end="",
        soft_wrap=True,
    )
    _show_record(on, answer.request_id)


def _show_record(on: Target, request_id: str) -> None:
    record: dict[str, object] | None = None

    def missing() -> str | None:
        nonlocal record
        record = install.request_record(on, request_id)
        return None if record else "the access log does not have it yet"

    wait_for("the request's record", missing, deadline_s=30)
    console.print(json.dumps(record), markup=False, soft_wrap=True)


def _flood(port: int) -> None:
    refusal = flood.flood(port, model=SERVICE, requests=_FLOOD)
    console.print(
        f"\nHTTP {refusal.status} {refusal.code}   Retry-After: {refusal.retry_after_s}\n{refusal.message}\n",
        markup=False,
        soft_wrap=True,
    )


def _say_goodbye(on: Target) -> None:
    console.print(
        f"Look around:\n{_where(on)}"
        f"  kubectl get infer,pods -n {NAMESPACE}\n"
        f"  kubectl describe infer {SERVICE} -n {NAMESPACE}\n"
        f"  kubectl logs -n {install.NAMESPACE} -l app.kubernetes.io/component=gateway\n"
        f"  kubectl explain infer.spec.scaling\n"
        f"Then: docs/serve.md and docs/gateway.md. `make demo-down` ends it.",
        soft_wrap=True,
    )


def _where(on: Target) -> str:
    """How a person's shell finds the demo's cluster and its kubectl."""
    if on.kubeconfig is None:
        return ""
    return f"  export KUBECONFIG={on.kubeconfig} PATH={programs.cache_dir() / 'bin'}:$PATH\n"


if __name__ == "__main__":
    command_line.run(main)
