"""What did each service, workload and instance get, and how did it end?

The one sink of all request records: it folds each into counters and histograms, which `metrics`
renders and `load_report` sends to the operator. Nothing is kept of a single request.

What a client writes must not make memory or metrics grow without end: a service has at most 200
workloads by name, the rest shares `other`; a name nobody used for an hour makes room for a new one
when all are taken. What is gone from the cluster (instances, revisions, services) is forgotten a
quarter of an hour later, when every scraper has seen its last count. What still exists is never
forgotten: a counter that vanished and came back would lose what it counted between two scrapes.

Times by workload are not kept: 200 workloads x 6 histograms x 20 lines would be 24,000 lines of
each service. The access log and the traces have them.
"""

from collections.abc import Iterator
from typing import Final

from stoker.gateway.histogram import (
    QUEUE_S,
    REQUEST_S,
    TIME_PER_OUTPUT_TOKEN_S,
    TIME_TO_FIRST_TOKEN_S,
    TOKENS,
    Histogram,
)
from stoker.gateway.outcome import Outcome, RequestRecord
from stoker.gateway.table import RoutingTable

MOST_WORKLOADS: Final = 200
"""Workloads of one service that have figures of their own."""
OTHER: Final = "other"
"""The workload that stands for the rest."""
_IDLE_WORKLOAD_S = 3600.0
_GONE_S = 900.0
_TIDY_S = 60.0


class Account:
    """What one workload, or one instance, got."""

    __slots__ = ("cached_tokens", "completion_tokens", "last_s", "outcomes", "prompt_tokens")

    def __init__(self) -> None:
        self.outcomes: dict[Outcome, int] = {}
        """Requests by how they ended."""
        self.prompt_tokens = 0
        self.cached_tokens = 0
        """Those of the prompt tokens that came from the prefix cache."""
        self.completion_tokens = 0
        self.last_s = 0.0
        """When the last request ended, on the monotonic clock."""

    def add(self, record: RequestRecord, ended_s: float) -> None:
        """One request more."""
        outcome = record.outcome
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.prompt_tokens += record.prompt_tokens
        self.cached_tokens += record.cached_tokens
        self.completion_tokens += record.completion_tokens
        self.last_s = ended_s


class RevisionTimes:
    """How long the requests took that an instance of one revision got, and how large they were."""

    __slots__ = (
        "completion_tokens",
        "last_s",
        "prompt_tokens",
        "queue_s",
        "request_s",
        "time_per_output_token_s",
        "time_to_first_token_s",
    )

    def __init__(self) -> None:
        self.queue_s = Histogram(QUEUE_S)
        """Waits for an instance."""
        self.time_to_first_token_s = Histogram(TIME_TO_FIRST_TOKEN_S)
        """Arrival to first event, of streams."""
        self.time_per_output_token_s = Histogram(TIME_PER_OUTPUT_TOKEN_S)
        """Mean of each stream, after its first token."""
        self.request_s = Histogram(REQUEST_S)
        """Arrival to end, of requests that ended well."""
        self.prompt_tokens = Histogram(TOKENS)
        self.completion_tokens = Histogram(TOKENS)
        self.last_s = 0.0
        """When the last request ended, on the monotonic clock."""

    def add(self, record: RequestRecord, ended_s: float) -> None:
        """One request more."""
        self.last_s = ended_s
        self.queue_s.observe(record.queue_s)
        if record.streaming and record.first_byte_s is not None and record.status < 400:
            self.time_to_first_token_s.observe(record.first_byte_s)
            if record.inter_token_s is not None:
                self.time_per_output_token_s.observe(_per_token_s(record, record.inter_token_s))
        if record.outcome is Outcome.OK:
            self.request_s.observe(record.duration_s)
            if record.prompt_tokens:
                self.prompt_tokens.observe(record.prompt_tokens)
                self.completion_tokens.observe(record.completion_tokens)


class ServiceAccount:
    """All of one service."""

    __slots__ = (
        "ended",
        "estimated",
        "instances",
        "last_s",
        "name",
        "namespace",
        "number",
        "refused",
        "request_bytes",
        "response_bytes",
        "retries",
        "revisions",
        "workloads",
    )

    def __init__(self, namespace: str, name: str, *, number: int) -> None:
        self.namespace = namespace
        self.name = name
        self.number = number
        """No other account of this process has it, not even of the same service after it was away."""
        self.workloads: dict[str, Account] = {}
        self.instances: dict[tuple[str, str, str], Account] = {}
        """By revision, model version and name of the pod."""
        self.revisions: dict[str, RevisionTimes] = {}
        self.refused: dict[str, int] = {}
        """Requests that ended with an error of this gateway, by its code."""
        self.ended = 0
        self.estimated = 0
        """Requests whose tokens were estimated."""
        self.retries = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.last_s = 0.0
        """When the last request ended, on the monotonic clock."""

    def add(self, record: RequestRecord, ended_s: float) -> None:
        """One request more."""
        self.last_s = ended_s
        self.ended += 1
        self.retries += record.retries
        self.request_bytes += record.request_bytes
        self.response_bytes += record.response_bytes
        if record.estimated:
            self.estimated += 1
        if record.code:
            self.refused[record.code] = self.refused.get(record.code, 0) + 1
        self._workload(record.workload).add(record, ended_s)
        if record.instance:
            key = (record.revision, record.model_version, record.instance)
            instance = self.instances.get(key)
            if instance is None:
                instance = self.instances[key] = Account()
            instance.add(record, ended_s)
            times = self.revisions.get(record.revision)
            if times is None:
                times = self.revisions[record.revision] = RevisionTimes()
            times.add(record, ended_s)

    def _workload(self, name: str) -> Account:
        account = self.workloads.get(name)
        if account is None:
            named = len(self.workloads) - (OTHER in self.workloads)
            if named >= MOST_WORKLOADS:
                name = OTHER
            account = self.workloads.get(name) or self.workloads.setdefault(name, Account())
        return account

    def tidy(self, instances: set[str], revisions: set[str], now_s: float) -> None:
        """Forget what is gone; these instances and revisions are still there."""
        for key, account in list(self.instances.items()):
            if key[2] not in instances and now_s - account.last_s > _GONE_S:
                del self.instances[key]
        for revision, times in list(self.revisions.items()):
            if revision not in revisions and now_s - times.last_s > _GONE_S:
                del self.revisions[revision]
        if len(self.workloads) >= MOST_WORKLOADS:
            for workload, account in list(self.workloads.items()):
                if now_s - account.last_s > _IDLE_WORKLOAD_S:
                    del self.workloads[workload]


class Accounting:
    """All of this gateway replica."""

    __slots__ = ("_opened", "_services", "_table", "_tidied_s")

    def __init__(self, table: RoutingTable) -> None:
        self._table = table
        self._opened = 0
        self._services: dict[tuple[str, str], ServiceAccount] = {}
        self._tidied_s = float("-inf")

    def add(self, record: RequestRecord) -> None:
        """A request is over."""
        ended_s = record.arrival_s + record.duration_s
        key = (record.namespace, record.service)
        service = self._services.get(key)
        if service is None:
            service = self.of(*key)
        service.add(record, ended_s)
        if ended_s - self._tidied_s > _TIDY_S:
            self._tidied_s = ended_s
            self._tidy(ended_s)

    def services(self) -> Iterator[ServiceAccount]:
        """All that had requests; the one without a name is for requests that no service serves."""
        return iter(list(self._services.values()))

    def of(self, namespace: str, name: str) -> ServiceAccount:
        """This service's, from now on at the latest."""
        account = self._services.get((namespace, name))
        if account is None:
            self._opened += 1
            account = self._services[namespace, name] = ServiceAccount(namespace, name, number=self._opened)
        return account

    def _tidy(self, now_s: float) -> None:
        for key, account in list(self._services.items()):
            service = self._table.services.get(key)
            if service is not None:
                busy = [i for i in service.departed.values() if i.in_flight]
                there = (*service.instances.values(), *busy)
                account.tidy({i.name for i in there}, {i.revision for i in there}, now_s)
            elif account.name and now_s - account.last_s > _GONE_S:
                del self._services[key]


def _per_token_s(record: RequestRecord, inter_event_s: float) -> float:
    """Time for each token after the first: an event may carry several.

    Example: 11 events 0.1 s apart with 21 tokens -> 10 * 0.1 / 20 = 0.05 s.
    """
    if record.estimated or record.completion_tokens < 2:
        return inter_event_s
    return inter_event_s * (record.events - 1) / (record.completion_tokens - 1)
