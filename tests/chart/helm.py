"""Runs the Helm that the embedded cluster is built with, against our chart."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

CHART = Path(__file__).parents[2] / "charts" / "stoker"
NAMESPACE = "stoker-system"


@dataclass(frozen=True, slots=True)
class Refused(Exception):
    """Helm ended with an error; `str()` is what a person sees."""

    message: str

    def __str__(self):
        return self.message


@dataclass(frozen=True, slots=True)
class Helm:
    """A Helm binary, and the cluster it talks to if it needs one."""

    binary: Path
    kubeconfig: Path | None = None

    def __call__(self, *args: str, values: dict | None = None) -> str:
        """What Helm prints; `values` are given as a values file."""
        command = [str(self.binary), *args]
        if values is not None:
            command += ["--values", "-"]
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
        if self.kubeconfig:
            environment["KUBECONFIG"] = str(self.kubeconfig)
        done = subprocess.run(
            command,
            input=yaml.safe_dump(values or {}),
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise Refused(done.stderr)
        return done.stdout

    def on(self, kubeconfig: Path) -> "Helm":
        """The same Helm, with this cluster."""
        return Helm(self.binary, kubeconfig)

    def template(
        self,
        *args: str,
        values: dict | None = None,
        release: str = "stoker",
        namespace: str = NAMESPACE,
        chart: Path = CHART,
    ) -> list[dict]:
        """The objects of the chart, in the order that Helm would create them."""
        rendered = self("template", release, str(chart), "--namespace", namespace, *args, values=values)
        return [obj for obj in yaml.safe_load_all(rendered) if obj]


def deployment_of(objects: list[dict], component: str) -> dict:
    """The Deployment of the operator or the gateway."""
    (found,) = (
        obj
        for obj in objects
        if obj["kind"] == "Deployment"
        and obj["metadata"]["labels"]["app.kubernetes.io/component"] == component
    )
    return found


def container_of(objects: list[dict], component: str) -> dict:
    """The one container of the operator's or the gateway's pods."""
    (container,) = deployment_of(objects, component)["spec"]["template"]["spec"]["containers"]
    return container
