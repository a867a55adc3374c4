"""A real API server to install the chart on, and what was in it at some moment."""

import contextlib
import json
import time
from dataclasses import dataclass

from e2e.cluster import control_plane
from e2e.cluster.layout import Layout
from tests.chart.helm import NAMESPACE

SERVICE_CRD = "inferenceservices.serving.stoker.dev"
CRDS = (SERVICE_CRD, "nodecaches.serving.stoker.dev")
USERS = "users"
"""Namespace in which the tests are users of Stoker."""
_DEADLINE_S = 30
_NOISE = {
    "apiservices.apiregistration.k8s.io",  # the API server's own, one for each CRD's version
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "events",
    "events.events.k8s.io",
}
"""What comes and goes by itself."""
_OURS = "app.kubernetes.io/part-of=stoker"


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A control plane without nodes: objects, admission and roles are real, pods never run."""

    layout: Layout

    def kubectl(self, *words: str, stdin: object = None) -> str:
        """What kubectl prints; `stdin` is a text, or objects for `-f -`."""
        text = stdin if isinstance(stdin, str | None) else json.dumps(as_list(stdin))
        return control_plane.kubectl(self.layout, *words, stdin=text).strip()

    def get(self, *words: str) -> dict:
        return json.loads(self.kubectl("get", "--output=json", *words))

    def everything(self) -> dict[str, str]:
        """Version of each object in the cluster, by its resource, namespace and name."""
        listed = self.kubectl("api-resources", "--verbs=list", "--output=name").split()
        resources = ",".join(sorted(set(listed) - _NOISE))
        columns = "KIND:.kind,SPACE:.metadata.namespace,NAME:.metadata.name,VERSION:.metadata.resourceVersion"
        found = self.kubectl(
            *("get", resources, "--all-namespaces", "--no-headers", "--ignore-not-found"),
            f"--output=custom-columns={columns}",
        )
        versions = (line.rsplit(maxsplit=1) for line in found.splitlines())
        return {name: version for name, version in versions if " kube-system " not in name}

    def settled(self) -> dict[str, str]:
        """Everything, once nobody has more to write but the holders of Leases."""

        def but_leases(objects):
            return {name: version for name, version in objects.items() if not name.startswith("Lease ")}

        end = time.monotonic() + _DEADLINE_S
        seen = self.everything()
        while but_leases(now := self.everything()) != but_leases(seen):
            assert time.monotonic() < end, "the cluster does not come to rest"
            seen = now
        return now

    @contextlib.contextmanager
    def borrowed(self):
        """The API server with two namespaces, and nothing of ours left in it afterwards.

        The namespaces stay: to delete one takes longer than most of the tests.
        """
        for namespace in (NAMESPACE, USERS):
            manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            self.kubectl("apply", "--server-side", "-f", "-", stdin=manifest)
            account = ("get", "serviceaccount", "default", "-n", namespace, "--ignore-not-found")
            eventually(lambda account=account: bool(self.kubectl(*account)), True)
        try:
            yield
        finally:
            self.kubectl("delete", "crd", *CRDS, "--ignore-not-found")
            self.kubectl("delete", "clusterrole,clusterrolebinding", "--selector", _OURS)
            kinds = "deployment,service,serviceaccount,poddisruptionbudget,lease,role,rolebinding"
            self.kubectl("delete", kinds, "--all-namespaces", "--selector", _OURS)
            self.kubectl("delete", "secret", "--all-namespaces", "--selector=owner=helm")
            self.kubectl("delete", "rolebinding", "--all", "-n", USERS)


def eventually(look, expected):
    """Look until it is as expected; the controllers of Kubernetes work beside us."""
    end = time.monotonic() + _DEADLINE_S
    while (seen := look()) != expected and time.monotonic() < end:
        time.sleep(0.1)
    assert seen == expected


def as_list(objects: object) -> object:
    """A list of objects as one object that kubectl takes."""
    return {"apiVersion": "v1", "kind": "List", "items": objects} if isinstance(objects, list) else objects
