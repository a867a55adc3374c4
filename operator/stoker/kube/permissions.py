"""What the operator and the gateway must be allowed to do, and nothing more.

RBAC rules as data: the chart's roles are compared with them, and `tests/cluster` runs both under
exactly these rules and checks that they used every one. Server-side apply that creates an
object needs `create` beside `patch`. Watching a kind needs `list` and `watch`.

No `*`, and no writing of `inferenceservices` themselves: the spec is the user's. Secrets are apart, as
the chart can leave that rule out. It gives no new power to whoever has the others: who may create
Deployments in a namespace can mount every Secret in it.
"""

from typing import TypeAlias

from stoker.kube import resources
from stoker.kube.resources import Resource

Rule: TypeAlias = dict[str, list[str]]
"""A PolicyRule of rbac.authorization.k8s.io/v1."""


def _rule(resource: Resource, *verbs: str, subresource: str = "") -> Rule:
    plural = resource.plural + (f"/{subresource}" if subresource else "")
    return {"apiGroups": [resource.group], "resources": [plural], "verbs": list(verbs)}


IN_WATCHED_NAMESPACES: tuple[Rule, ...] = (
    _rule(resources.INFERENCE_SERVICES, "get", "list", "watch"),
    _rule(resources.INFERENCE_SERVICES, "patch", subresource="status"),
    _rule(resources.DEPLOYMENTS, "list", "watch", "create", "patch", "delete"),
    _rule(resources.PODS, "list", "watch"),
    _rule(resources.SERVICES, "get", "list", "watch", "create", "patch"),
    _rule(resources.DISRUPTION_BUDGETS, "get", "list", "watch", "create", "patch"),
    _rule(resources.SERVICE_ACCOUNTS, "get", "list", "watch", "create", "patch"),
    # Not watched: others keep large ones, and ours are memory.
    _rule(resources.CONFIG_MAPS, "get", "create", "patch"),
    _rule(resources.EVENTS, "create"),
)
"""In every namespace whose services are served: a ClusterRole, or a Role in each."""

TO_READ_CREDENTIALS: tuple[Rule, ...] = (_rule(resources.SECRETS, "get"),)
"""Beside them: the Secret that `model.credentialsSecret` names, to read the config of a private model."""

IN_OWN_NAMESPACE: tuple[Rule, ...] = (
    _rule(resources.LEASES, "get", "create", "update"),
    _rule(resources.CONFIG_MAPS, "get", "create", "patch"),
)
"""In the operator's own namespace, where its Lease is, and what engines measured."""

TO_READ_LOAD: tuple[Rule, ...] = (_rule(resources.ENDPOINT_SLICES, "list"),)
"""In the same namespace, beside them, if there is a gateway: where its replicas are."""

GATEWAY_IN_WATCHED_NAMESPACES: tuple[Rule, ...] = (
    _rule(resources.INFERENCE_SERVICES, "list", "watch"),
    _rule(resources.ENDPOINT_SLICES, "list", "watch"),
)
"""What the gateway may do in every namespace whose services are served."""

GATEWAY_IN_OWN_NAMESPACE: tuple[Rule, ...] = (_rule(resources.ENDPOINT_SLICES, "list", "watch"),)
"""In the gateway's own namespace, whose other replicas it counts."""
