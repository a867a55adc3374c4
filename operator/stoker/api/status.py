"""What Stoker says about a service: the status of an `InferenceService`.

The API server drops what is not declared here, so everything the operator writes is. Numbers that
change every second are metrics, not status.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from stoker.api.base import ApiModel, Message, Name, ObjectName, ShortText, list_map
from stoker.api.spec import MAX_REPLICAS


class Condition(ApiModel):
    """One aspect of the service's state, in the shape of metav1.Condition."""

    type: Annotated[str, Field(max_length=316)]
    """Which aspect; `docs/conditions.md` lists them."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=1024, min_length=1)]
    """Why, in one word; `docs/conditions.md` says what each means and what to do."""
    message: Message
    """Why, in a sentence with the number or name that matters."""
    last_transition_time: datetime
    """When `status` last changed."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the spec that it was found for."""


class RevisionPhase(StrEnum):
    """Where a revision is in its life."""

    CANDIDATE = "Candidate"
    SERVING = "Serving"
    PREVIOUS = "Previous"
    RETIRED = "Retired"


class RevisionOutcome(StrEnum):
    """How the rollout of a revision ended."""

    PROMOTED = "Promoted"
    SUPERSEDED = "Superseded"
    ROLLED_BACK = "RolledBack"


class RevisionStatus(ApiModel):
    """A revision: one form of the instances, with a Deployment of its own while it has any."""

    name: Name
    """Name of the revision, of its Deployment, and of the label on its pods."""
    model_revision: ShortText | None = None
    """Commit, tag or version of its weights, resolved."""
    weights_digest: ShortText | None = None
    """`sha256:` and the digest of its weights, as its instances state it."""
    phase: RevisionPhase
    """`Candidate` (starts, or takes over step by step), `Serving` (has the traffic), `Previous`
    (still warm after a rollout) or `Retired` (only remembered)."""
    replicas: Annotated[int, Field(ge=0)] | None = None
    """Instances that it has."""
    ready_replicas: Annotated[int, Field(ge=0)] | None = None
    """Instances of it that are Ready."""
    weight: Annotated[int, Field(ge=0, le=100)] | None = None
    """Share of the traffic, in percent."""
    created: datetime | None = None
    """When it was made."""
    outcome: RevisionOutcome | None = None
    """How its rollout ended: `Promoted`, `Superseded` or `RolledBack`; absent while it runs."""
    message: Message | None = None
    """Why its rollout ended so, or what it waits for."""


class InstanceState(StrEnum):
    """What an instance does; from `Weights` to `Draining` in its own words (`GET /state`)."""

    SCHEDULING = "Scheduling"
    PULLING_IMAGE = "PullingImage"
    WEIGHTS = "Weights"
    STARTING = "Starting"
    LOADING = "Loading"
    WARMING_UP = "WarmingUp"
    SERVING = "Serving"
    DRAINING = "Draining"
    FAILED = "Failed"


class InstanceStatus(ApiModel):
    """A pod that serves, or will."""

    name: ObjectName
    """Name of the pod."""
    node: ObjectName | None = None
    """Node that it runs on; absent while it is not scheduled."""
    revision: Name
    """Revision that it belongs to."""
    state: InstanceState
    """What it does: `Scheduling`, `PullingImage`, `Weights`, `Starting`, `Loading`, `WarmingUp`,
    `Serving`, `Draining` or `Failed`."""
    since: datetime | None = None
    """When it came into this state."""
    model_version: ShortText | None = None
    """Version of the weights that it says it serves."""
    message: Message | None = None
    """What holds it up, if anything does."""


class CapacityStatus(ApiModel):
    """How many requests one instance works on at once."""

    revision: Name | None = None
    """The revision that it is about: the one that serves, or the wanted one while none does."""
    requests_per_instance: Annotated[int, Field(ge=0)] | None = None
    """Requests at once, each of the full context length."""
    context_length: Annotated[int, Field(ge=1)] | None = None
    """The context length that it was found for, in tokens."""
    max_context_length: Annotated[int, Field(ge=0)] | None = None
    """The largest context length of which one request fits, in tokens; 0 if none does."""
    kv_cache_tokens: Annotated[int, Field(ge=0)] | None = None
    """Tokens that the KV cache of one instance holds."""
    max_num_seqs: Annotated[int, Field(ge=1)] | None = None
    """Requests that one instance runs at once at most, however short they are (vLLM's `--max-num-seqs`)."""
    source: Literal["estimated", "measured"] | None = None
    """`estimated` before the first start, `measured` after it: by the instance that holds the least."""
    measured_to_estimated: Annotated[float, Field(ge=0)] | None = None
    """KV cache as engines measured it, over the estimate; estimates of the same model, accelerators and
    arguments are multiplied with it. Absent while none has measured."""
    arithmetic: Message | None = None
    """How the number comes about, for people."""


class ScalingDecision(ApiModel):
    """A change of the wanted replicas."""

    time: datetime
    """When it was decided."""
    desired: Annotated[int, Field(ge=0)]
    """Replicas wanted from then on."""
    reason: Annotated[str, Field(max_length=64)]
    """Why, in one word; `docs/conditions.md` lists them."""
    message: Message | None = None
    """The numbers behind it."""


class ScalingStatus(ApiModel):
    """What the scaler wants."""

    desired: Annotated[int, Field(ge=0)] | None = None
    """Replicas wanted now."""
    reason: Annotated[str, Field(max_length=64)] | None = None
    """Why so many, in one word; `docs/conditions.md` lists them."""
    message: Message | None = None
    """The numbers behind it."""
    decisions: Annotated[tuple[ScalingDecision, ...], Field(max_length=5)] = ()
    """The last changes, newest first."""


class StageTime(ApiModel):
    """How long one stage of the start takes."""

    name: InstanceState
    """The stage."""
    p50_seconds: Annotated[float, Field(ge=0)]
    """Half of the starts took at most this long, in seconds."""
    p90_seconds: Annotated[float, Field(ge=0)]
    """Nine of ten starts took at most this long, in seconds."""


class StartupStatus(ApiModel):
    """How long instances of this service take from decision to Ready."""

    p50_seconds: Annotated[float, Field(ge=0)] | None = None
    """Half of the starts took at most this long, in seconds."""
    p90_seconds: Annotated[float, Field(ge=0)] | None = None
    """Nine of ten starts took at most this long, in seconds."""
    stages: Annotated[tuple[StageTime, ...], Field(max_length=9)] = Field(
        default=(), json_schema_extra=list_map("name")
    )
    """The stages of the start, in order."""


class CacheStatus(ApiModel):
    """Where the weights are."""

    nodes_ready: Annotated[int, Field(ge=0)] | None = None
    """Nodes that hold the verified weights."""
    nodes_wanted: Annotated[int, Field(ge=0)] | None = None
    """Nodes that should."""
    bytes: Annotated[int, Field(ge=0)] | None = None
    """Size of the weights, in bytes."""


class TrafficTarget(ApiModel):
    """A share of the traffic."""

    revision: Name
    """The revision that gets it."""
    weight: Annotated[int, Field(ge=0, le=100)]
    """The share, in percent."""


class InferenceServiceStatus(ApiModel):
    """What became of the spec."""

    observed_generation: Annotated[int, Field(ge=-1)] | None = None
    """The generation of the spec that this status is about; -1 before Stoker has looked at it."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = Field(
        default=(), json_schema_extra=list_map("type")
    )
    """The aspects of the service's state; start with `Ready`."""
    url: Annotated[str, Field(max_length=1024)] | None = None
    """Where clients send requests: the base URL for an OpenAI client, with `model` for this service."""
    model_version: ShortText | None = None
    """Commit, tag or version of the weights that serve now."""
    ready: Annotated[str, Field(max_length=32)] | None = None
    """Ready and wanted instances for people, such as `2/3`."""
    replicas: Annotated[int, Field(ge=0)] | None = None
    """Instances that there are, for the scale subresource."""
    ready_replicas: Annotated[int, Field(ge=0)] | None = None
    """Instances that are Ready."""
    selector: Annotated[str, Field(max_length=512)] | None = None
    """Label selector of the pods, for the scale subresource."""
    revisions: Annotated[tuple[RevisionStatus, ...], Field(max_length=64)] = Field(
        default=(), json_schema_extra=list_map("name")
    )
    """Revisions of the service, newest first."""
    instances: Annotated[tuple[InstanceStatus, ...], Field(max_length=2 * MAX_REPLICAS)] = Field(
        default=(), json_schema_extra=list_map("name")
    )
    """Instances of the service."""
    capacity: CapacityStatus | None = None
    """How many requests one instance works on at once."""
    scaling: ScalingStatus | None = None
    """What the scaler wants."""
    startup: StartupStatus | None = None
    """How long instances take from decision to Ready."""
    cache: CacheStatus | None = None
    """Where the weights are."""
    traffic: Annotated[tuple[TrafficTarget, ...], Field(max_length=8)] = Field(
        default=(), json_schema_extra=list_map("revision")
    )
    """The shares of the traffic; the gateway obeys them."""
