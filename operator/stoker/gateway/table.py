"""Which service is meant by the `model` of a request, and what does it look like now?

Discovery hands over the whole picture each time, as values; the table works out what is new, what
changed and what is gone. So it is exact after any order of events and after a missed one: only the
last picture counts. What lives on from picture to picture (queues, instances with their requests in
flight) keeps its object.

Names: `namespace/name` always means that service's model. Of several services that claim the same
bare name the oldest has it, so that a newcomer in another namespace takes nobody's traffic.

Each gateway replica takes its share of a service: of the places in the queue as many as never give
more than promised in total, of an instance's capacity the nearest whole number, as always rounding
down would leave slots of small instances idle for which the scaler counts on requests.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from stoker.gateway.admission import ServiceQueue
from stoker.gateway.errors import Code, Rejection
from stoker.gateway.instances import Instance
from stoker.gateway.retry_budget import RetryBudget
from stoker.gateway.routing import Router

UNKNOWN_CAPACITY = 32
"""Concurrent requests of an instance whose capacity is not known."""
_NAMES_LISTED = 20
"""Models that a message names."""
_NAME_SHOWN = 100
"""Characters of a client's text that a message repeats."""

Identity: TypeAlias = tuple[str, str, int]
"""Pod, address and port: a pod that comes back with another address is another instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceState:
    """An instance, as discovery sees it."""

    name: str
    """Name of the pod."""
    host: str
    """Its address; empty if it has none (any more), and then it is not an instance."""
    port: int
    revision: str
    model_version: str = ""
    """Version of the weights that it says it serves; empty if not known."""
    leaving: bool = False
    """Whether it is terminating or not Ready: no new requests, but those in flight go on."""
    ready_since_s: float = float("-inf")
    """When it became Ready, on this process's monotonic clock; minus infinity if long ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """A service, as discovery sees it."""

    namespace: str
    name: str
    created: str
    """Creation time as Kubernetes writes it, which sorts as text."""
    models: tuple[str, ...]
    """Names that clients send: the model's own name first, then its aliases."""
    adapters: tuple[str, ...] = ()
    """Names of the LoRA adapters, which clients send as `model` too."""
    model_version: str = ""
    """Version of the weights that serve now; empty if not known."""
    max_requests: int = 100
    """`queue.maxRequests`: of all gateway replicas together."""
    max_wait_s: float = 30.0
    max_tokens: int | None = None
    """Tokens that may wait, of all gateway replicas together; None if there is no bound."""
    context_length: int | None = None
    """Tokens that one request takes at most; None if not known."""
    first_byte_timeout_s: float = 600.0
    weights: Mapping[str, int] = field(default_factory=dict)
    """Traffic weight by revision; empty if nothing is said."""
    capacity: int | None = None
    """Concurrent requests of one instance; None if not known."""
    instances: tuple[InstanceState, ...] = ()
    starting: bool = False
    """Whether an instance is starting."""
    next_instance_at_s: float | None = None
    """When the next instance should be Ready, on this process's monotonic clock; None if not known."""
    zero: bool = False
    """Whether the service is at zero instances because nobody asks, so that a request wakes it."""


class Service:
    """A service, as this gateway replica works with it."""

    __slots__ = (
        "departed",
        "instances",
        "name",
        "namespace",
        "queue",
        "retry_budget",
        "router",
        "state",
    )

    def __init__(
        self, state: ServiceState, *, draw: Callable[[], float], on_wake: Callable[["Service"], None]
    ) -> None:
        self.namespace = state.namespace
        self.name = state.name
        self.state = state
        """As discovery last saw it."""
        self.instances: dict[Identity, Instance] = {}
        """Those in the last picture."""
        self.departed: dict[Identity, Instance] = {}
        """Those that are gone from it and may still have requests in flight."""
        self.router = Router(draw=draw)
        self.retry_budget = RetryBudget()
        self.queue = ServiceQueue(
            name=f"{state.namespace}/{state.name}",
            router=self.router,
            draw=draw,
            on_wake=lambda: on_wake(self),
        )

    def __repr__(self) -> str:
        return f"Service({self.namespace}/{self.name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What the `model` of a request means."""

    service: Service
    model: str
    """The name that the engine knows it by; write it into the request if it differs."""
    adapter: str = ""
    """The LoRA adapter; empty if the model itself is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What an update changed."""

    new: tuple[Instance, ...] = ()
    """Instances that get requests from now on; connections to them may be opened."""
    gone: tuple[Instance, ...] = ()
    """Instances that get no more requests; those that they still have in flight go on."""


class RoutingTable:
    """All services and the names that lead to them."""

    __slots__ = ("_draw", "_on_wake", "_replicas", "_routes", "services")

    def __init__(self, *, draw: Callable[[], float], on_wake: Callable[[Service], None]) -> None:
        """`draw` gives a number in [0, 1) by chance; `on_wake` is told of a service to be woken."""
        self._draw = draw
        self._on_wake = on_wake
        self._replicas = 1
        self._routes: dict[str, Route] = {}
        self.services: dict[tuple[str, str], Service] = {}
        """By namespace and name."""

    def find(self, model: str) -> Route | None:
        """What this name means; None if nothing is served under it."""
        return self._routes.get(model)

    def models(self) -> list[dict[str, object]]:
        """What `/v1/models` lists, in OpenAI's shape; a name that two services claim is listed in full
        for the younger one.
        """
        entries: list[dict[str, object]] = []
        for service in _oldest_first(self.services.values()):
            names = (*service.state.models, *service.state.adapters)
            for name in dict.fromkeys(names):
                full = f"{service.namespace}/{name}"
                route = self._routes[full]
                owned = self._routes[name].service is service
                entry: dict[str, object] = {
                    "id": name if owned else full,
                    "object": "model",
                    "owned_by": service.namespace,
                    "root": service.state.models[0],
                    "parent": service.state.models[0] if route.adapter else None,
                    "version": service.state.model_version or None,
                    "service": service.name,
                }
                entries.append(entry)
        return entries

    def update(self, states: Iterable[ServiceState], *, replicas: int, now_s: float) -> Changes:
        """Take over the whole picture; `replicas` is how many gateways share the services."""
        wanted = {(s.namespace, s.name): s for s in states}
        new: list[Instance] = []
        gone: list[Instance] = []
        gone_services = [s for key, s in self.services.items() if key not in wanted]
        for service in gone_services:
            del self.services[service.namespace, service.name]
            gone += _take_over_instances(service, (), limit=1)[1]
        changed: list[Service] = []
        renamed = bool(gone_services)
        for key, state in wanted.items():
            known = self.services.get(key)
            if known and known.state == state and not known.departed and replicas == self._replicas:
                continue
            service = known or Service(state, draw=self._draw, on_wake=self._on_wake)
            self.services[key] = service
            changed.append(service)
            renamed = renamed or known is None or _claim(known.state) != _claim(state)
            _take_over(service, state, replicas=replicas)
            limit = _instance_share(state.capacity, replicas)
            came, went = _take_over_instances(service, state.instances, limit=limit)
            new += came
            gone += went
        self._replicas = replicas
        if renamed:
            self._routes = _routes(self.services.values())
        # Last, as these call waiters, who may look at the table.
        for service in gone_services:
            service.queue.refuse_all(self.not_found(service.state.models[0]))
        for service in changed:
            service.queue.pump(now_s)
        return Changes(new=tuple(new), gone=tuple(gone))

    def not_found(self, model: str) -> Rejection:
        """The answer to a name that means nothing: it says what there is."""
        names = [str(entry["id"]) for entry in self.models()]
        listed = ", ".join(names[:_NAMES_LISTED]) or "no model"
        more = f" and {len(names) - _NAMES_LISTED} more" if len(names) > _NAMES_LISTED else ""
        return Rejection(
            code=Code.MODEL_NOT_FOUND,
            message=f"There is no model `{model[:_NAME_SHOWN]}`; this gateway serves {listed}{more}.",
            param="model",
        )


def _take_over(service: Service, state: ServiceState, *, replicas: int) -> None:
    service.state = state
    queue = service.queue
    queue.max_requests = _queue_share(state.max_requests, replicas)
    queue.max_wait_s = state.max_wait_s
    queue.max_tokens = None if state.max_tokens is None else _queue_share(state.max_tokens, replicas)
    queue.context_length = state.context_length
    queue.starting = state.starting
    queue.next_instance_at_s = state.next_instance_at_s
    queue.zero = state.zero


def _take_over_instances(
    service: Service, states: Iterable[InstanceState], *, limit: int
) -> tuple[list[Instance], list[Instance]]:
    """Bring the instances to this picture; returns those that now get requests, and those that are gone."""
    listed = {(s.name, s.host, s.port): s for s in states if s.host}
    new: list[Instance] = []
    before = service.instances
    # One that comes back while it still has requests from before keeps their count.
    departed = {identity: i for identity, i in service.departed.items() if i.in_flight}
    service.instances = {}
    for identity, state in listed.items():
        instance = before.pop(identity, None) or departed.pop(identity, None)
        if instance is None:
            instance = Instance(
                name=state.name,
                host=state.host,
                port=state.port,
                revision=state.revision,
                model_version=state.model_version,
                limit=limit,
            )
        instance.limit = limit
        # What status says about a pod may come later than its address.
        instance.revision = state.revision
        instance.model_version = state.model_version
        if instance.leaving and not state.leaving:
            instance.begin(state.ready_since_s)
            new.append(instance)
        instance.leaving = state.leaving
        service.instances[identity] = instance
    for instance in before.values():
        instance.leaving = True
    service.departed = departed | before
    service.router.set(service.instances.values(), service.state.weights)
    return new, list(before.values())


def _queue_share(total: int, replicas: int) -> int:
    """This replica's share of what may wait: never more than promised, unless it were nothing.

    Example: 100 over 3 replicas -> 33; 2 over 3 -> 1; 0 -> 0.
    """
    return max(1, total // replicas) if total else 0


def _instance_share(capacity: int | None, replicas: int) -> int:
    """This replica's share of an instance: the nearest whole number, at least 1.

    Example: 5 over 3 replicas -> 2; 4 over 3 -> 1.
    """
    return max(1, int((capacity or UNKNOWN_CAPACITY) / replicas + 0.5))


def _claim(state: ServiceState) -> tuple[object, ...]:
    """What decides which names lead to a service."""
    return state.created, state.models, state.adapters


def _oldest_first(services: Iterable[Service]) -> list[Service]:
    return sorted(services, key=lambda s: (s.state.created, s.namespace, s.name))


def _routes(services: Iterable[Service]) -> dict[str, Route]:
    oldest_first = _oldest_first(services)
    routes: dict[str, Route] = {}
    for prefix in ("{0.namespace}/", ""):
        # All full names first: a bare name with a slash in it must not hide one.
        for service in oldest_first:
            before = prefix.format(service)
            for model in service.state.models:
                routes.setdefault(before + model, Route(service=service, model=model))
            for adapter in service.state.adapters:
                routes.setdefault(before + adapter, Route(service=service, model=adapter, adapter=adapter))
    return routes
