"""What a node holds of models: the cluster-scoped `NodeCache`, one for each node, made by machines.

The operator writes what it wants there (`spec.wanted`), the node's agent what there is
(`status.present`). One object a node, so that an agent needs to see and write only its own.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from stoker.api.base import ApiModel, Message, Name, ObjectName, ShortText, Uri, list_map


class SecretReference(ApiModel):
    """A Secret in some namespace."""

    namespace: Name
    """Namespace of the Secret."""
    name: ObjectName
    """Name of the Secret."""


class WantedWeights(ApiModel):
    """Weights that the node should hold."""

    name: Name
    """Name of the entry: it stands for source, revision and digest together."""
    uri: Uri
    """Where they come from, as `model.uri` of an `InferenceService`."""
    revision: ShortText | None = None
    """Commit, tag or version. Default: the source's newest."""
    sha256: Annotated[str, Field(max_length=128)] | None = None
    """Digest that they must have, in hexadecimal. Default: whatever the source gives."""
    credentials_secret: SecretReference | None = None
    """Secret with the source's keys. Default: no credentials."""


class NodeCacheSpec(ApiModel):
    """What the node should hold."""

    wanted: Annotated[tuple[WantedWeights, ...], Field(max_length=256)] = Field(
        default=(), json_schema_extra=list_map("name")
    )
    """Weights that the node should hold, most urgent first."""


class WeightsState(StrEnum):
    """How far the weights are."""

    WAITING = "Waiting"
    FETCHING = "Fetching"
    VERIFYING = "Verifying"
    READY = "Ready"
    FAILED = "Failed"


class PresentWeights(ApiModel):
    """Weights that the node holds, or is about to."""

    name: Name
    """Name of the entry in `spec.wanted`."""
    state: WeightsState
    """How far they are: `Waiting`, `Fetching`, `Verifying`, `Ready` or `Failed`."""
    digest: ShortText | None = None
    """`sha256:` and the digest of the weights."""
    bytes: Annotated[int, Field(ge=0)] | None = None
    """Their size, in bytes."""
    progress_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """How much of them is here, in percent."""
    error: Message | None = None
    """What went wrong last, and what to change."""


class NodeCacheStatus(ApiModel):
    """What the node holds."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the spec that this status is about."""
    present: Annotated[tuple[PresentWeights, ...], Field(max_length=256)] = Field(
        default=(), json_schema_extra=list_map("name")
    )
    """Weights that the node holds, or is about to."""
    free_bytes: Annotated[int, Field(ge=0)] | None = None
    """Room that is left in the cache's budget, in bytes."""
