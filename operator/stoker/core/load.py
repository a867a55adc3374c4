"""What load does a service have, over all gateway replicas?

Each replica says what it sees; the sum is what the service has. A replica that is not heard says
nothing, which is not zero: the sum counts those, so that whoever decides by it can hold instead of
shrinking a fleet because its gateway was cut off.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

TotalKey: TypeAlias = tuple[str, ...]
"""What is counted: `("arrived",)`, `("ended",)`, `("refused", code)`,
`("waits", revision, number of the bucket)`, and `("first_tokens", revision)` with their sum in seconds
`("first_token_s", revision)`, as well as `("requests", revision)` and `("request_s", revision)`."""
Totals: TypeAlias = Mapping[TotalKey, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceLoad:
    """One instance, as one replica or all of them see it."""

    name: str
    """Name of the pod."""
    revision: str
    in_flight: int
    """Requests on it."""
    limit: int
    """Requests that may be on it."""
    usable: bool
    """Whether new requests may go to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLoad:
    """One service, as one replica sees it now."""

    waiting: int
    """Requests in its queue."""
    oldest_wait_s: float
    """How long the first of them has been waiting; 0 if none waits."""
    woken_ago_s: float | None
    """How long ago a request asked for the service while it was at zero; None if it is not, or none did."""
    instances: tuple[InstanceLoad, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLoad:
    """One service, over all replicas."""

    heard: int
    """Replicas that this is the sum of."""
    silent: int
    """Replicas that exist and were not heard lately: what they have is missing here."""
    waiting: int
    oldest_wait_s: float
    woken_ago_s: float | None
    """The latest of all replicas."""
    instances: tuple[InstanceLoad, ...]
    """By name; an instance is usable if it is to any replica."""
    totals: Totals = field(default_factory=dict)
    """Counted since this reader began; only differences between two readings mean anything."""

    @property
    def in_flight(self) -> int:
        """Requests on instances."""
        return sum(i.in_flight for i in self.instances)


def add_up(replicas: Iterable[ReplicaLoad], *, silent: int, totals: Totals) -> ServiceLoad:
    """The sum over the replicas that were heard.

    Example: two replicas with 3 and 4 waiting, for 2 s and 5 s -> 7 waiting, the oldest for 5 s.
    """
    heard = list(replicas)
    woken = [r.woken_ago_s for r in heard if r.woken_ago_s is not None]
    instances: dict[tuple[str, str], InstanceLoad] = {}
    for instance in (i for r in heard for i in r.instances):
        key = (instance.name, instance.revision)
        before = instances.get(key)
        instances[key] = instance if before is None else _both(before, instance)
    return ServiceLoad(
        heard=len(heard),
        silent=silent,
        waiting=sum(r.waiting for r in heard),
        oldest_wait_s=max((r.oldest_wait_s for r in heard), default=0.0),
        woken_ago_s=min(woken, default=None),
        instances=tuple(instances[key] for key in sorted(instances)),
        totals=totals,
    )


def _both(one: InstanceLoad, other: InstanceLoad) -> InstanceLoad:
    return InstanceLoad(
        name=one.name,
        revision=one.revision,
        in_flight=one.in_flight + other.in_flight,
        limit=one.limit + other.limit,
        usable=one.usable or other.usable,
    )
