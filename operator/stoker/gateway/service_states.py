"""What do the objects of the cluster say about a service?

The `InferenceService` says what is served under which names, how long a queue may be, and, by its
status, how traffic is shared out, what an instance can take and what is starting. The EndpointSlices
of its Service say which instances get requests; they are the cluster's own and immediate word on
that, and the status, which the operator writes a moment later, never overrules them.

A pod's revision is in the status; for one that the status does not know yet it is in the pod's name,
which starts with it; else it is the revision that serves. A slice of another controller may list any
address, and an instance of an unknown revision is better than none.

Rejected: pods in place of EndpointSlices (ten times the bytes, and rights to read all of a pod);
asking the Service's DNS name (no readiness of single pods, and late by its cache).
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from stoker.core.model import JsonObject
from stoker.gateway.table import InstanceState, ServiceState

SERVICE_NAME_LABEL: Final = "kubernetes.io/service-name"
"""On an EndpointSlice: the name of the Service that it belongs to."""
DEFAULT_MAX_REQUESTS: Final = 100
DEFAULT_MAX_WAIT_S: Final = 30.0
"""As `api.spec.QueueSpec` says; importing that would cost a fifth of the time until a gateway serves."""
_PORT_NAME: Final = "http"
"""Name that the operator gives to the port of a Service."""
_USUAL_TOKENS: Final = 2048
"""Prompt and answer of a usual request. The means of the traces that Azure published are 1,366 for
conversations and 2,076 for code; where requests are longer, those that do not fit wait in the engine."""
_STAGES: Final = ("Scheduling", "PullingImage", "Weights", "Starting", "Loading", "WarmingUp")
"""Stages of a start, in their order (`api.status.InstanceState`)."""
_NOT_COMING: Final = ("Failed", "Draining")
_POD_SUFFIXES = 2
"""A Deployment's pod is named after it, its ReplicaSet's hash and five characters."""
_FAMILIES: Final[Mapping[str, int]] = MappingProxyType({"IPv4": 0, "IPv6": 1})
"""Address types that can be connected to, the preferred one first."""


def service_state(
    service: JsonObject,
    slices: Iterable[JsonObject],
    *,
    first_byte_timeout_s: float,
    ready_since_s: float,
    now: datetime,
    now_s: float,
) -> ServiceState:
    """One service with its instances.

    `ready_since_s` is when an instance that is seen Ready for the first time became so. `now` and
    `now_s` are the same moment, of the day and of the monotonic clock.
    """
    metadata, spec, status = service["metadata"], service["spec"], service.get("status", {})
    model, queue = spec["model"], spec.get("queue", {})
    instances = tuple(_instances(status, slices, ready_since_s=ready_since_s))
    capacity = status.get("capacity", {})
    desired = status.get("scaling", {}).get("desired")
    ready = sum(not i.leaving for i in instances)
    starting = _is_starting(status, desired=desired, ready=ready)
    return ServiceState(
        namespace=metadata["namespace"],
        name=metadata["name"],
        created=metadata["creationTimestamp"],
        models=tuple(dict.fromkeys((model.get("name") or metadata["name"], *model.get("aliases", ())))),
        adapters=tuple(adapter["name"] for adapter in model.get("adapters", ())),
        model_version=status.get("modelVersion", ""),
        max_requests=queue.get("maxRequests", DEFAULT_MAX_REQUESTS),
        max_wait_s=float(queue.get("maxWaitSeconds", DEFAULT_MAX_WAIT_S)),
        max_tokens=_one_turn(capacity.get("kvCacheTokens", 0), ready=ready),
        context_length=capacity.get("contextLength"),
        first_byte_timeout_s=first_byte_timeout_s,
        weights={target["revision"]: target["weight"] for target in status.get("traffic", ())},
        capacity=_at_once(capacity),
        instances=instances,
        starting=starting,
        next_instance_at_s=_next_instance_at_s(status, now=now, now_s=now_s) if starting else None,
        zero=spec.get("replicas") is None and desired == 0,
    )


def _at_once(capacity: JsonObject) -> int | None:
    """Requests that one instance works on at once; None if it is not known.

    As many of usual length as its KV cache holds, and no more than the engine runs.
    `requestsPerInstance` is for requests of the full context length, which few are: by that alone an
    instance for 131,072 tokens would get one request at a time.

    Example: 215,744 tokens, 1 request of 131,072, at most 1,024 at once -> 105.
    """
    most: int | None = capacity.get("maxNumSeqs")
    fit: int = max(capacity.get("requestsPerInstance", 0), capacity.get("kvCacheTokens", 0) // _USUAL_TOKENS)
    if not fit:
        return most
    return fit if most is None else min(fit, most)


def ready_pods(slices: Iterable[JsonObject]) -> int:
    """How many pods of a Service get requests."""
    return len({name for name, _, ready in _endpoints(slices) if ready})


def _instances(
    status: JsonObject, slices: Iterable[JsonObject], *, ready_since_s: float
) -> Iterator[InstanceState]:
    records = {record["name"]: record for record in status.get("instances", ())}
    versions = {record["name"]: record.get("modelRevision", "") for record in status.get("revisions", ())}
    serving = _serving(status)
    found: dict[str, tuple[str, int, bool]] = {}
    for name, (host, port), ready in _endpoints(slices):
        before = found.setdefault(name, (host, port, ready))
        # While a pod moves from one slice to another it is in both; what is told to stop stops.
        if before[:2] == (host, port):
            found[name] = (host, port, before[2] and ready)
    for name, (host, port, ready) in found.items():
        record = records.get(name, {})
        by_name = name.rsplit("-", _POD_SUFFIXES)[0]
        revision = record.get("revision") or (by_name if by_name in versions else serving)
        yield InstanceState(
            name=name,
            host=host,
            port=port,
            revision=revision,
            model_version=record.get("modelVersion") or versions.get(revision, ""),
            leaving=not ready,
            ready_since_s=ready_since_s,
        )


def _endpoints(slices: Iterable[JsonObject]) -> Iterator[tuple[str, tuple[str, int], bool]]:
    """Pod, address with port, and whether it gets requests; the preferred address of a pod first."""
    connectable = [one for one in slices if one.get("addressType") in _FAMILIES]
    for one in sorted(connectable, key=lambda one: (_FAMILIES[one["addressType"]], one["metadata"]["name"])):
        port = next((p.get("port") for p in one.get("ports") or () if p.get("name") == _PORT_NAME), None)
        for endpoint in one.get("endpoints") or ():
            addresses = endpoint.get("addresses") or ()
            if port is None or not addresses or not addresses[0]:
                continue
            conditions = endpoint.get("conditions") or {}
            name = (endpoint.get("targetRef") or {}).get("name") or addresses[0]
            # Null means ready, as for those who watched Endpoints before there were conditions.
            ready = conditions.get("ready") is not False and not conditions.get("terminating")
            yield name, (addresses[0], port), ready


def _serving(status: JsonObject) -> str:
    """The revision that serves; empty if none does."""
    for record in status.get("revisions", ()):
        if record.get("phase") == "Serving":
            return str(record["name"])
    return ""


def _is_starting(status: JsonObject, *, desired: int | None, ready: int) -> bool:
    """Whether an instance should become Ready without anyone doing anything about it."""
    if desired is None or desired <= ready or _is_stalled(status):
        return False
    records = [r for r in status.get("instances", ()) if r["state"] != "Draining"]
    return len(records) < desired or any(r["state"] not in _NOT_COMING for r in records)


def _is_stalled(status: JsonObject) -> bool:
    return any(c["type"] == "Stalled" and c["status"] == "True" for c in status.get("conditions", ()))


def _one_turn(kv_cache_tokens: int, *, ready: int) -> int | None:
    """Tokens that may wait: as many as the instances hold at once; None if that is not known.

    So whoever comes last waits for about one turn of all slots. While no instance is Ready, requests
    wait for the first one.

    Example: 470,016 tokens of KV cache, 3 Ready -> 1,410,048; none Ready -> 470,016.
    """
    return kv_cache_tokens * max(1, ready) or None


def _next_instance_at_s(status: JsonObject, *, now: datetime, now_s: float) -> float | None:
    """When the next instance should be Ready, by what nine of ten starts took; None if not known.

    What is left of a start is the rest of its stage and the stages after it. Example: 12 s into
    `Loading` of 40 s, with `WarmingUp` of 5 s to come -> in 28 + 5 = 33 s.
    """
    startup = status.get("startup", {})
    stages = {stage["name"]: stage["p90Seconds"] for stage in startup.get("stages", ())}
    left = []
    for record in status.get("instances", ()):
        if record["state"] in stages and "since" in record:
            done_s = _age_s(record["since"], now)
            later = _STAGES[_STAGES.index(record["state"]) + 1 :]
            rest_s = max(0.0, stages[record["state"]] - done_s)
            left.append(rest_s + sum(stages.get(stage, 0.0) for stage in later))
    decisions = status.get("scaling", {}).get("decisions", ())
    if not left and decisions and "p90Seconds" in startup:
        left.append(max(0.0, startup["p90Seconds"] - _age_s(decisions[0]["time"], now)))
    return now_s + min(left) if left else None


def _age_s(time: str, now: datetime) -> float:
    return (now - datetime.fromisoformat(time)).total_seconds()
