"""Where each kind that we use lives in the API: path, and whether it has a namespace.

A table instead of discovery: the kinds are known and few, discovery costs a round trip for each
group at every start, and what is not in the table cannot be called by accident. `permissions.py`
grants exactly what this table and the code make possible.
"""

from dataclasses import dataclass
from urllib.parse import quote

from stoker.api import names
from stoker.core.model import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One kind of object, as the API server addresses it."""

    api_version: str
    kind: str
    plural: str

    @property
    def group(self) -> str:
        """API group, empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def path(self, *, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """Path of a collection, an object or its subresource; all namespaces if `namespace` is None."""
        root = "apis" if self.group else "api"
        parts = [root, self.api_version]
        if namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts += [self.plural, *(quote(part, safe="") for part in (name, subresource) if part)]
        return "/" + "/".join(parts)


INFERENCE_SERVICES = Resource(api_version=names.API_VERSION, kind=names.KIND, plural=names.PLURAL)
DEPLOYMENTS = Resource(api_version="apps/v1", kind="Deployment", plural="deployments")
PODS = Resource(api_version="v1", kind="Pod", plural="pods")
SERVICES = Resource(api_version="v1", kind="Service", plural="services")
SERVICE_ACCOUNTS = Resource(api_version="v1", kind="ServiceAccount", plural="serviceaccounts")
DISRUPTION_BUDGETS = Resource(
    api_version="policy/v1", kind="PodDisruptionBudget", plural="poddisruptionbudgets"
)
CONFIG_MAPS = Resource(api_version="v1", kind="ConfigMap", plural="configmaps")
SECRETS = Resource(api_version="v1", kind="Secret", plural="secrets")
EVENTS = Resource(api_version="events.k8s.io/v1", kind="Event", plural="events")
LEASES = Resource(api_version="coordination.k8s.io/v1", kind="Lease", plural="leases")
ENDPOINT_SLICES = Resource(api_version="discovery.k8s.io/v1", kind="EndpointSlice", plural="endpointslices")

CHILDREN = (DEPLOYMENTS, PODS, SERVICES, DISRUPTION_BUDGETS, SERVICE_ACCOUNTS)
"""Kinds that belong to a service, are found by its label, and are watched."""

_BY_KIND = {
    (resource.api_version, resource.kind): resource
    for resource in (INFERENCE_SERVICES, *CHILDREN, CONFIG_MAPS, EVENTS, LEASES, ENDPOINT_SLICES)
}


def resource_of(obj: JsonObject) -> Resource:
    """The resource that a complete object belongs to; KeyError for a kind that we do not use."""
    return _BY_KIND[obj["apiVersion"], obj["kind"]]


def describe(obj: JsonObject) -> str:
    """How messages name an object. Example: `Deployment demo/chat-5f3a9c01`."""
    metadata = obj["metadata"]
    return f"{obj['kind']} {metadata.get('namespace', '')}/{metadata.get('name', '')}"
