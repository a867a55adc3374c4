"""What goes into a reconcile and what comes out of it.

`Observed` is what one worker read of one service, live. `Plan` is everything that should happen
next, each action with its reason, so that a test, a log line and a person see the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from stoker.api.reasons import Explained

if TYPE_CHECKING:  # both refuse with what is defined here
    from stoker.core.capacity.weights import WeightsSize
    from stoker.core.sources import Source

JsonObject: TypeAlias = dict[str, Any]
"""A Kubernetes object as the API server sends it: plain, so that no field is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why something that a user wrote is not done. A value: no user input raises in `core`."""

    reason: Explained
    message: str
    """One sentence: what is wrong, where, what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCapacity:
    """What an engine says that it has, once it serves; None for each that it does not say."""

    kv_cache_tokens: int | None
    """Tokens of KV cache, of all engines of the instance."""
    blocks: int | None
    """Blocks of KV cache, of all engines of the instance; one of each is not used."""
    block_size: int | None
    """Tokens in a block. Blocks times block size may be more than `kv_cache_tokens`."""
    max_concurrency: float | None
    """Requests at once at `max_model_len`, of all engines of the instance."""
    max_model_len: int | None
    """Most tokens of a request."""
    kv_bytes: int | None
    """KV cache of one rank."""
    weights_bytes: int | None
    """Weights of one rank."""
    visible_bytes: int | None
    """Memory of the smallest accelerator, or of the NUMA node that a CPU engine is bound to."""
    engine_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceReport:
    """What an instance said of itself on its probe port (`GET /state`)."""

    ready: bool
    revision: str
    """Name of the revision it was started for."""
    model_version: str
    """What the weights are: the resolved commit, tag or version."""
    weights_digest: str
    """`sha256:` and the digest of the weights' manifest."""
    stage: str
    """Start-up stage it is in, `Serving` after the last one."""
    in_flight: int
    capacity: MeasuredCapacity | None = None
    """What the engine measured; None before it serves, and for an engine that does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What the files of a model say of its size."""

    version: str
    """Commit, tag or version that was read; empty where the source has none."""
    config: JsonObject
    """Its `config.json`, as it is."""
    weights: "WeightsSize | None"
    """From the files of the weights; None where they do not say, or the config could not be understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelToRead:
    """A model whose files are to be read in the background."""

    revision: str
    """Name of the revision of the service that is to serve it."""
    source: "Source"
    model_revision: str | None
    """Commit, tag or version in the source; None for its newest."""
    credentials_secret: str | None
    """Secret in the namespace of the service."""
    engine_args: tuple[str, ...]
    """Arguments of the engine, which say in what form it holds the weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReading:
    """What came of the last attempt to read a model's files."""

    revision: str
    """Name of the revision of the service that is to serve it."""
    answer: ModelFacts | Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """How far an estimate was off, once an engine has measured."""

    key: str
    """Hash of model, accelerators and arguments: of all that the estimate was made from."""
    ratio: float
    """KV cache as measured, over KV cache as estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One service and its children, as read from the API server, plus what its instances say."""

    service: JsonObject
    deployments: tuple[JsonObject, ...] = ()
    pods: tuple[JsonObject, ...] = ()
    services: tuple[JsonObject, ...] = ()
    disruption_budgets: tuple[JsonObject, ...] = ()
    service_accounts: tuple[JsonObject, ...] = ()
    config_maps: tuple[JsonObject, ...] = ()
    reports: Mapping[str, InstanceReport] = field(default_factory=dict)
    """By pod name; a pod that did not answer is absent."""
    reading: ModelReading | None = None
    """None while no attempt to read the files of the service's model has ended."""
    corrections: Mapping[str, float] = field(default_factory=dict)
    """Ratio of each known `Correction`, by its key; of all services."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Create or change an object by server-side apply with our field manager."""

    object: JsonObject
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete an object, if it is still the one that was observed (same uid)."""

    object: JsonObject
    reason: str


Action: TypeAlias = Apply | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A Kubernetes Event on the service; emitted on a transition only."""

    type: str
    """`Normal` or `Warning`."""
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one reconcile decided."""

    actions: tuple[Action, ...]
    """In order; when one fails the later ones wait for the next try."""
    status: JsonObject
    """The whole status to write, if it differs from the live one."""
    events: tuple[Event, ...] = ()
    model_to_read: ModelToRead | None = None
    """To be read in the background; None when nothing is missing."""
    correction: Correction | None = None
    """To be remembered for later estimates."""
    requeue_after_s: float | None = None
    """Look again after this long even if nothing changes; None if only a change matters."""
