"""Stoker on a cluster: the chart as a user installs it, and namespaces as a careful owner makes them."""

import json
from pathlib import Path

from e2e.target import Target

ROOT = Path(__file__).parents[1]
RELEASE = "stoker"
GATEWAY = "stoker-gateway"
NAMESPACE = "stoker-system"
_DEADLINE_S = 180


def install(
    target: Target, *, registry: str, version: str, tag: str = "dev", first_byte_s: float = 600.0
) -> None:
    """Install or upgrade the chart with the images of this checkout, and wait until it is Ready.

    `version` says what the image of operator and gateway was built from: the tag stays while the image
    changes, and pods start again only when their template does. The model server of the demo lies inside
    the cluster, so sources there are allowed. `first_byte_s` is when the gateway takes an engine to hang.
    """
    make_namespace(target, NAMESPACE)
    _end_interrupted(target)
    values = {
        "image.registry": registry,
        "image.repository": "stoker",
        "image.tag": tag,
        "servingImage.repository": "stoker-serving",
        "servingImage.tag": tag,
        "servingImageCpu.repository": "stoker-serving-cpu",
        "servingImageCpu.tag": tag,
        "sources.allowClusterInternal": "true",
        "operator.podAnnotations.image-version": version,
        "gateway.podAnnotations.image-version": version,
        "gateway.extraEnv[0].name": "STOKER_ACCESS_LOG",
        "gateway.extraEnv[0].value": "-",
        "gateway.extraEnv[1].name": "STOKER_FIRST_BYTE_TIMEOUT_SECONDS",
        "gateway.extraEnv[1].value": str(first_byte_s),
        # The nodes share the cores of one machine.
        "gateway.resources.requests.cpu": "50m",
    }
    settings = ",".join(f"{name}={value}" for name, value in values.items())
    target.helm(
        *("upgrade", "--install", RELEASE, str(ROOT / "charts" / "stoker")),
        *("--namespace", NAMESPACE, "--set", settings, "--wait", f"--timeout={_DEADLINE_S}s"),
        deadline_s=_DEADLINE_S + 30,
    )


def request_record(target: Target, request_id: str) -> dict[str, object] | None:
    """What the gateways' access log says about a request; None as long as it says nothing."""
    selector = "app.kubernetes.io/component=gateway"
    log = target.kubectl("logs", f"--namespace={NAMESPACE}", f"--selector={selector}", "--tail=1000")
    for line in log.splitlines():
        if request_id in line:
            record: dict[str, object] = json.loads(line)
            return record
    return None


def _end_interrupted(target: Target) -> None:
    """Remove an install or upgrade that was cut off: Helm refuses to go on from there."""
    pending = json.loads(target.helm("list", "--pending", "--namespace", NAMESPACE, "--output=json"))
    if any(release["name"] == RELEASE for release in pending):
        target.helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")


def make_namespace(target: Target, name: str) -> None:
    """A namespace in which only pods that pass Pod Security `restricted` may run."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    target.kubectl("apply", "--server-side", "-f", "-", stdin=manifest)
