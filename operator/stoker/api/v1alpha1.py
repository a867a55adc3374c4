"""The kinds of `serving.stoker.dev/v1alpha1`; their parts stand in the modules named after them."""

from typing import Any

from stoker.api.base import ApiModel
from stoker.api.names import API_VERSION, KIND, NODE_CACHE_KIND
from stoker.api.node_cache import NodeCacheSpec, NodeCacheStatus
from stoker.api.spec import InferenceServiceSpec
from stoker.api.status import InferenceServiceStatus


class InferenceService(ApiModel):
    """A model that answers requests: Stoker runs its instances, scales them and rolls versions."""

    api_version: str = API_VERSION
    kind: str = KIND
    metadata: dict[str, Any]
    spec: InferenceServiceSpec
    """What the service should be."""
    status: InferenceServiceStatus = InferenceServiceStatus()
    """What became of the spec; written by the operator."""


class NodeCache(ApiModel):
    """Weights on a node's disk; made and written by Stoker, one for each node."""

    api_version: str = API_VERSION
    kind: str = NODE_CACHE_KIND
    metadata: dict[str, Any]
    spec: NodeCacheSpec = NodeCacheSpec()
    """What the node should hold."""
    status: NodeCacheStatus = NodeCacheStatus()
    """What the node holds."""
