"""What does Prometheus get when it asks?

Text, made at each scrape from the accounts and the live state, in slices of about 16 kB: between two
of them the event loop goes on with its streams, so a scrape of 50 services with 20 workloads each
delays nobody by more than a fraction of a millisecond. One histogram is always within one slice, so
its buckets, sum and count agree.

Format: Prometheus text 0.0.4, which wants all series of a metric in one group.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import accumulate
from typing import Final, TypeAlias

from stoker.gateway import metric_families as families
from stoker.gateway.accounting import Account, Accounting, RevisionTimes, ServiceAccount
from stoker.gateway.histogram import Histogram
from stoker.gateway.instances import Instance
from stoker.gateway.metric_families import Family
from stoker.gateway.table import RoutingTable, Service

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SLICE_CHARACTERS = 16 * 1024
_PIECE_LINES = 100

_Values: TypeAlias = Iterable[tuple[tuple[str, ...], float]]
"""Values of the labels after `namespace` and `service`, and the number."""


def exposition(
    accounting: Accounting, table: RoutingTable, *, now_s: float, own: Mapping[Family, float]
) -> Iterator[bytes]:
    """The answer in slices; `own` are the metrics of the gateway itself, without labels."""
    parts: list[str] = []
    size = 0
    for text in _texts(accounting, table, now_s=now_s, own=own):
        parts.append(text)
        size += len(text)
        if size >= _SLICE_CHARACTERS:
            yield "".join(parts).encode()
            parts, size = [], 0
    yield "".join(parts).encode()


def state_of(instance: Instance, now_s: float) -> str:
    """What an instance is to this replica, in one word."""
    if instance.leaving:
        return "leaving"
    return "usable" if instance.usable(now_s) else "ejected"


def _texts(
    accounting: Accounting, table: RoutingTable, *, now_s: float, own: Mapping[Family, float]
) -> Iterator[str]:
    for family, of_service in _COUNTERS:
        yield family.head()
        for account in accounting.services():
            yield from _lines(family, account, of_service(account))
    for family, of_revision in _OF_REVISIONS:
        yield family.head()
        for account in accounting.services():
            for revision, times in list(account.revisions.items()):
                labels = _labels(family.labels, (account.namespace, account.name, revision))
                yield _histogram(family, labels, of_revision(times))
    for family, of_now in _NOW:
        yield family.head()
        for service in list(table.services.values()):
            yield from _lines(family, service, of_now(service, now_s))
    for family, value in own.items():
        yield f"{family.head()}{family.name} {value}\n"


def _lines(family: Family, service: ServiceAccount | Service, values: _Values) -> Iterator[str]:
    start = f"{family.name}{{{_labels(family.labels, (service.namespace, service.name))}"
    names = family.labels[2:]
    # As they are at one moment: between two pieces there may come new ones.
    rows = list(values)
    for at in range(0, len(rows), _PIECE_LINES):
        piece = rows[at : at + _PIECE_LINES]
        yield "".join(
            [f"{start},{_labels(names, own)}}} {n}\n" if own else f"{start}}} {n}\n" for own, n in piece]
        )


def _histogram(family: Family, labels: str, histogram: Histogram) -> str:
    start = f"{family.name}_bucket{{{labels},le="
    below = list(accumulate(histogram.counts))
    buckets = start.join([f"{end}{n}\n" for end, n in zip(_ends(family.bounds), below, strict=True)])
    sum_and_count = (
        f"{family.name}_sum{{{labels}}} {histogram.total}\n{family.name}_count{{{labels}}} {below[-1]}\n"
    )
    return f"{start}{buckets}{sum_and_count}"


@cache
def _ends(bounds: tuple[float, ...]) -> tuple[str, ...]:
    """What follows `le=` in the line of each bucket, up to its count."""
    return tuple(f'"{bound}"}} ' for bound in (*bounds, "+Inf"))


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    return ",".join([f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=False)])


def _escaped(text: str) -> str:
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return text


def _by_instance(service: Service, read: Callable[[Instance], int]) -> _Values:
    """Of the instances there are, and of those gone from the cluster that still have requests.

    A pod that came back with another address is two instances with one name, so they are summed.
    """
    sums: dict[tuple[str, ...], int] = {}
    still_busy = [i for i in service.departed.values() if i.in_flight]
    for i in (*service.instances.values(), *still_busy):
        key = (i.revision, i.model_version, i.name)
        sums[key] = sums.get(key, 0) + read(i)
    return sums.items()


def _by_state(service: Service, now_s: float) -> dict[tuple[str, ...], int]:
    counts: dict[tuple[str, ...], int] = {(state,): 0 for state in families.STATES}
    for instance in service.instances.values():
        counts[(state_of(instance, now_s),)] += 1
    return counts


def _workload_outcomes(service: ServiceAccount) -> _Values:
    for workload, account in service.workloads.items():
        for outcome, count in account.outcomes.items():
            yield (workload, outcome), count


def _instance_outcomes(service: ServiceAccount) -> _Values:
    for key, account in service.instances.items():
        for outcome, count in account.outcomes.items():
            yield (*key, outcome), count


def _of_workloads(read: Callable[[Account], int]) -> Callable[[ServiceAccount], _Values]:
    return lambda service: [((workload,), read(a)) for workload, a in service.workloads.items()]


def _of_instances(read: Callable[[Account], int]) -> Callable[[ServiceAccount], _Values]:
    return lambda service: [(key, read(a)) for key, a in service.instances.items()]


def _of_service(read: Callable[[ServiceAccount], int]) -> Callable[[ServiceAccount], _Values]:
    return lambda service: [((), read(service))]


def _errors(service: ServiceAccount) -> _Values:
    return [((code,), count) for code, count in service.refused.items()]


_COUNTERS: tuple[tuple[Family, Callable[[ServiceAccount], _Values]], ...] = (
    (families.REQUESTS, _workload_outcomes),
    (families.PROMPT_TOKENS, _of_workloads(lambda a: a.prompt_tokens)),
    (families.CACHED_TOKENS, _of_workloads(lambda a: a.cached_tokens)),
    (families.GENERATION_TOKENS, _of_workloads(lambda a: a.completion_tokens)),
    (families.ERRORS, _errors),
    (families.RETRIES, _of_service(lambda s: s.retries)),
    (families.ESTIMATED, _of_service(lambda s: s.estimated)),
    (families.REQUEST_BYTES, _of_service(lambda s: s.request_bytes)),
    (families.RESPONSE_BYTES, _of_service(lambda s: s.response_bytes)),
    (families.INSTANCE_REQUESTS, _instance_outcomes),
    (families.INSTANCE_PROMPT_TOKENS, _of_instances(lambda a: a.prompt_tokens)),
    (families.INSTANCE_CACHED_TOKENS, _of_instances(lambda a: a.cached_tokens)),
    (families.INSTANCE_GENERATION_TOKENS, _of_instances(lambda a: a.completion_tokens)),
)
_OF_REVISIONS: tuple[tuple[Family, Callable[[RevisionTimes], Histogram]], ...] = (
    (families.QUEUE_TIME, lambda t: t.queue_s),
    (families.TIME_TO_FIRST_TOKEN, lambda t: t.time_to_first_token_s),
    (families.TIME_PER_OUTPUT_TOKEN, lambda t: t.time_per_output_token_s),
    (families.REQUEST_TIME, lambda t: t.request_s),
    (families.REQUEST_PROMPT_TOKENS, lambda t: t.prompt_tokens),
    (families.REQUEST_GENERATION_TOKENS, lambda t: t.completion_tokens),
)
_NOW: tuple[tuple[Family, Callable[[Service, float], _Values]], ...] = (
    (families.WAITING, lambda s, _: [((), s.queue.queued)]),
    (families.OLDEST_WAIT, lambda s, now_s: [((), s.queue.oldest_wait_s(now_s))]),
    (families.QUEUE_LIMIT, lambda s, _: [((), s.queue.max_requests)]),
    (families.RUNNING, lambda s, _: _by_instance(s, lambda i: i.in_flight)),
    (families.RUNNING_LIMIT, lambda s, _: _by_instance(s, lambda i: i.limit)),
    (families.INSTANCES, lambda s, now_s: _by_state(s, now_s).items()),
)
