"""What a user asks for: the spec of an `InferenceService`.

What limits one field's range is in the models and ends up in the CRD's schema. What compares
fields, or deserves a better sentence than "should match", is a CEL rule in `rules.py`.
"""

from enum import StrEnum
from typing import Annotated, TypeAlias

from pydantic import Field

from stoker.api.base import LIST_SET, ApiModel, Labels, Name, Percent, Seconds, list_map
from stoker.api.instance_spec import AcceleratorSpec, EngineSpec, ModelSpec, PodTemplate

MAX_REPLICAS = 500
"""The most instances of one service: status names each, and an object has 1.5 MB at most."""

Replicas: TypeAlias = Annotated[int, Field(ge=0, le=MAX_REPLICAS)]
TimeOfDay: TypeAlias = Annotated[str, Field(max_length=16)]


class StartObjective(ApiModel):
    """How soon requests start, for how many of them."""

    start_within_seconds: Annotated[float, Field(gt=0, le=3600)] = Field(default=2.0, examples=[5])
    """Seconds from a request's arrival until an instance starts on it."""
    percent: Percent = Field(default=99.0, examples=[99.9])
    """Share of the requests, in percent, that start so soon; less than 100."""


class Day(StrEnum):
    """A day of the week."""

    MON = "Mon"
    TUE = "Tue"
    WED = "Wed"
    THU = "Thu"
    FRI = "Fri"
    SAT = "Sat"
    SUN = "Sun"


class ScheduleEntry(ApiModel):
    """A time of the week with a floor of its own."""

    name: Name = Field(examples=["office-hours"])
    """Name of the entry, unique in the schedule."""
    days: Annotated[tuple[Day, ...], Field(min_length=1, max_length=7)] = Field(
        default=tuple(Day), examples=[["Mon", "Fri"]], json_schema_extra=LIST_SET
    )
    """Days on which it starts."""
    start: TimeOfDay = Field(examples=['"08:00"'])
    """Time of the day from which it holds; instances are started early enough to be Ready by then."""
    end: TimeOfDay = Field(examples=['"18:30"'])
    """Time of the day up to which it holds; one that is not after `start` is on the next day."""
    time_zone: Name = Field(default="UTC", examples=["Europe/Zurich"])
    """IANA name of the time zone of `start` and `end`."""
    min_replicas: Replicas = Field(examples=[4])
    """Fewest replicas while it holds; at most `maxReplicas`."""


class ScalingSpec(ApiModel):
    """How many replicas the scaler may and should run."""

    min_replicas: Replicas = Field(default=1, examples=[2])
    """Fewest replicas; 0 lets the service go to zero."""
    max_replicas: Annotated[int, Field(ge=1, le=MAX_REPLICAS)] = Field(
        default_factory=lambda data: max(1, data["min_replicas"]), examples=[8]
    )
    """Most replicas. Default: `minReplicas`, at least 1."""
    objective: StartObjective = StartObjective()
    """How soon requests should start; the scaler learns how much headroom that takes."""
    warm_replicas: Replicas = Field(default=0, examples=[1])
    """Replicas kept Ready on top of what the load needs."""
    concurrency: Annotated[int, Field(ge=1, le=10_000)] | None = Field(default=None, examples=[32])
    """Requests that one instance works on at once. Default: measured, and estimated before that."""
    hold_seconds: Seconds | None = Field(default=None, examples=[900])
    """Seconds for which fewer must do before replicas leave. Default: twice the start time of an
    instance, at least 600."""
    schedule: Annotated[tuple[ScheduleEntry, ...], Field(max_length=16)] = Field(
        default=(),
        examples=[[{"name": "office-hours", "start": '"08:00"', "end": '"18:30"', "minReplicas": 4}]],
        json_schema_extra=list_map("name"),
    )
    """Times of the week with a higher floor than `minReplicas`."""
    zero_after_seconds: Annotated[int, Field(ge=60, le=604_800)] | None = Field(default=None, examples=[1800])
    """Seconds without a request after which the last replicas leave; `minReplicas` must be 0.
    Default: never."""


class QueueSpec(ApiModel):
    """How many requests wait for an instance, and for how long."""

    max_requests: Annotated[int, Field(ge=0, le=100_000)] = Field(default=100, examples=[500])
    """Most requests that wait at once, over all gateways, and no more than the KV caches of the Ready
    instances have tokens for; further ones are refused with 429."""
    max_wait_seconds: Annotated[int, Field(ge=1, le=3600)] = Field(default=30, examples=[120])
    """Seconds after which a request that still waits is refused with 503."""


class RolloutStrategy(StrEnum):
    """How traffic moves to a new revision."""

    CANARY = "Canary"
    BLUE_GREEN = "BlueGreen"


class OnFailure(StrEnum):
    """What to do with a revision that is worse than the one before."""

    ROLLBACK = "Rollback"
    PAUSE = "Pause"


class RolloutStep(ApiModel):
    """A share of the traffic, and how long to watch it."""

    weight: Annotated[int, Field(ge=1, le=99)] = Field(examples=[10])
    """Share of the traffic for the new revision, in percent; more than in the step before."""
    hold_seconds: Seconds = Field(default=60, examples=[300])
    """Seconds to stay at this share before the next step."""


class RolloutAnalysis(ApiModel):
    """How the new revision is compared with the old one."""

    enabled: bool = Field(default=True, examples=[False])
    """Whether errors and time to first token of both revisions are compared in every step."""
    min_requests: Annotated[int, Field(ge=1, le=1_000_000)] = Field(default=50, examples=[500])
    """Requests that each revision must have had before it is judged."""


class RolloutSpec(ApiModel):
    """How a new revision takes over."""

    strategy: RolloutStrategy = Field(default=RolloutStrategy.CANARY, examples=["BlueGreen"])
    """How traffic moves: `Canary` by the shares in `steps`, `BlueGreen` at once when the new
    revision has all its replicas."""
    steps: Annotated[tuple[RolloutStep, ...], Field(min_length=1, max_length=16)] = Field(
        default=(RolloutStep(weight=10, hold_seconds=60), RolloutStep(weight=50, hold_seconds=60)),
        examples=[[{"weight": 5, "holdSeconds": 300}, {"weight": 25}]],
    )
    """Shares of the traffic on the way to 100 %, ascending; for `Canary`."""
    max_surge: Annotated[int, Field(ge=0, le=100)] = Field(default=1, examples=[0])
    """Instances above the wanted replicas while a rollout runs; with 0 an old one leaves before a
    new one starts, for clusters without a spare accelerator."""
    analysis: RolloutAnalysis = RolloutAnalysis()
    """How the new revision is compared with the old one."""
    on_failure: OnFailure = Field(default=OnFailure.ROLLBACK, examples=["Pause"])
    """What happens when the new revision is worse: `Rollback` gives the old one all traffic at
    once, `Pause` stops where it is and waits for you."""
    paused: bool = Field(default=False, examples=[True])
    """Whether the rollout stays where it is."""
    keep_previous_seconds: Seconds = Field(default=600, examples=[3600])
    """Seconds for which the instances of the old revision stay warm after the rollout."""
    history_limit: Annotated[int, Field(ge=1, le=50)] = Field(default=5, examples=[10])
    """Revisions without instances that status remembers, and that `rollbackTo` may name."""


class SpreadDomain(StrEnum):
    """What instances are spread over."""

    ZONE = "Zone"
    NODE = "Node"


class AvailabilitySpec(ApiModel):
    """How the service survives the loss of a node or a zone."""

    spare_replicas: Replicas | None = Field(default=None, examples=[2])
    """Replicas more than the load needs. Default: 1 if `minReplicas` is 2 or more, else 0."""
    spread: Annotated[tuple[SpreadDomain, ...], Field(max_length=2)] = Field(
        default=(SpreadDomain.ZONE, SpreadDomain.NODE), examples=[["Node"]], json_schema_extra=LIST_SET
    )
    """What instances are spread over as evenly as the free accelerators allow; `[]` for nothing."""


class CacheSpec(ApiModel):
    """Which nodes hold the weights before an instance needs them."""

    prefetch: bool = Field(default=True, examples=[False])
    """Whether nodes fetch the weights and the image before an instance starts there."""
    node_selector: Labels | None = Field(default=None, examples=[{"pool": "inference"}])
    """Labels of the nodes that hold the weights. Default: all that have the accelerator."""


class LatencyObjective(ApiModel):
    """A time that most requests should stay under."""

    within_milliseconds: Annotated[int, Field(ge=1, le=3_600_000)] = Field(examples=[800])
    """The time, in milliseconds."""
    percent: Percent = Field(default=95.0, examples=[99])
    """Share of the requests, in percent, that stay under it; less than 100."""


class ObjectivesSpec(ApiModel):
    """What users are promised, for alerts, rollouts and reports."""

    time_to_first_token: LatencyObjective | None = None
    """From a request's arrival to its first token. Default: no promise."""
    inter_token_latency: LatencyObjective | None = None
    """From one token of an answer to the next. Default: no promise."""
    success_percent: Percent | None = Field(default=None, examples=[99.9])
    """Share of the requests, in percent, that end without an error of ours. Default: no promise."""


class CostSpec(ApiModel):
    """What the service costs."""

    per_accelerator_hour: Annotated[float, Field(ge=0, le=1_000_000)] | None = Field(
        default=None, examples=[2.49]
    )
    """Price of one accelerator for one hour, in the currency of your bills. Default: not known."""


class InferenceServiceSpec(ApiModel):
    """What the service should be."""

    model: ModelSpec
    """Which model to serve, and in which form."""
    accelerator: AcceleratorSpec
    """Accelerators of one instance."""
    engine: EngineSpec = EngineSpec()
    """How the engine (vLLM) runs."""
    scaling: ScalingSpec = ScalingSpec()
    """How many replicas the scaler may and should run."""
    queue: QueueSpec = QueueSpec()
    """How many requests wait for an instance, and for how long."""
    rollout: RolloutSpec = RolloutSpec()
    """How a new revision takes over."""
    rollback_to: Name | None = Field(default=None, examples=["chat-5f3a9c01"])
    """Name of an earlier revision that should serve in place of this spec. Default: none."""
    availability: AvailabilitySpec = AvailabilitySpec()
    """How the service survives the loss of a node or a zone."""
    cache: CacheSpec = CacheSpec()
    """Which nodes hold the weights before an instance needs them."""
    objectives: ObjectivesSpec = ObjectivesSpec()
    """What users are promised, for alerts, rollouts and reports."""
    cost: CostSpec = CostSpec()
    """What the service costs."""
    pod_template: PodTemplate = PodTemplate()
    """What is merged into the pods of all instances; a change makes a new revision."""
    replicas: Replicas | None = Field(default=None, examples=[3])
    """Pins the number of replicas and turns the scaler off; 0 stops the service.
    Default: the scaler decides."""
