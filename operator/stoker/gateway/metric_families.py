"""Which metrics does this gateway have, and how many series can each have at most?

Names end as vLLM's do where the meaning is the same (`time_to_first_token_seconds`,
`num_requests_waiting`), so that whoever knows the engine's knows the gateway's; docs/metrics.md
says which of OpenTelemetry's `gen_ai.*` each one is. A label has either values that this code knows
(outcomes, codes), or a bound, or one value for each object of the cluster.
"""

from dataclasses import dataclass
from typing import Final

from stoker.gateway.accounting import MOST_WORKLOADS
from stoker.gateway.errors import Code
from stoker.gateway.histogram import (
    QUEUE_S,
    REQUEST_S,
    TIME_PER_OUTPUT_TOKEN_S,
    TIME_TO_FIRST_TOKEN_S,
    TOKENS,
)
from stoker.gateway.outcome import Outcome

_PREFIX = "stoker_gateway_"
_SERVICE = ("namespace", "service")
_WORKLOAD = (*_SERVICE, "workload")
_INSTANCE = (*_SERVICE, "revision", "model_version", "instance")
_REVISION = (*_SERVICE, "revision")

STATES: Final = ("usable", "ejected", "leaving")
"""What an instance can be to the gateway."""
MOST_VALUES: Final = {
    "workload": MOST_WORKLOADS + 1,
    "outcome": len(Outcome),
    "code": len(Code),
    "state": len(STATES),
}
"""Values that a label can have, for each service; what is not here has one for each such object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric with all its series."""

    name: str
    type: str
    """`counter`, `gauge` or `histogram`."""
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets."""

    @property
    def most_series(self) -> str:
        """How many series it has at most, as a person would say it."""
        factors = [label for label in self.labels if label not in (*_SERVICE, "model_version")]
        if "instance" in factors:
            factors.remove("revision")
        each = [f"{MOST_VALUES[f]} {f}s" if f in MOST_VALUES else f"{f}s" for f in factors]
        if self.bounds:
            each.append(f"{len(self.bounds) + 3} lines")
        return " x ".join(["services", *each]) if self.labels else "1"

    def head(self) -> str:
        """The lines before its series."""
        return f"# HELP {self.name} {self.help}\n# TYPE {self.name} {self.type}\n"


def _counter(name: str, help: str, labels: tuple[str, ...] = ()) -> Family:
    return Family(name=f"{_PREFIX}{name}_total", type="counter", help=help, labels=labels)


def _gauge(name: str, help: str, labels: tuple[str, ...] = ()) -> Family:
    return Family(name=_PREFIX + name, type="gauge", help=help, labels=labels)


def _histogram(name: str, bounds: tuple[float, ...], help: str) -> Family:
    return Family(name=_PREFIX + name, type="histogram", help=help, labels=_REVISION, bounds=bounds)


REQUESTS = _counter("requests", "Requests by how they ended.", (*_WORKLOAD, "outcome"))
PROMPT_TOKENS = _counter("prompt_tokens", "Tokens of prompts, cached ones included.", _WORKLOAD)
CACHED_TOKENS = _counter("prompt_tokens_cached", "Those that came from the prefix cache.", _WORKLOAD)
GENERATION_TOKENS = _counter("generation_tokens", "Tokens that were generated.", _WORKLOAD)

INSTANCE_REQUESTS = _counter(
    "instance_requests", "Requests by the instance that got them last.", (*_INSTANCE, "outcome")
)
INSTANCE_PROMPT_TOKENS = _counter("instance_prompt_tokens", "Tokens of prompts, by instance.", _INSTANCE)
INSTANCE_CACHED_TOKENS = _counter(
    "instance_prompt_tokens_cached", "Those that came from the instance's prefix cache.", _INSTANCE
)
INSTANCE_GENERATION_TOKENS = _counter(
    "instance_generation_tokens", "Tokens that the instance generated.", _INSTANCE
)

ERRORS = _counter("request_errors", "Errors that this gateway told clients, by code.", (*_SERVICE, "code"))
RETRIES = _counter("retries", "Times that a request was sent to another instance.", _SERVICE)
ESTIMATED = _counter(
    "requests_estimated",
    "Requests whose tokens the engine did not say, so that they were counted here.",
    _SERVICE,
)
REQUEST_BYTES = _counter("request_bytes", "Bytes of requests' bodies.", _SERVICE)
RESPONSE_BYTES = _counter("response_bytes", "Bytes of answers' bodies.", _SERVICE)

QUEUE_TIME = _histogram(
    "request_queue_time_seconds", QUEUE_S, "Wait for an instance, of requests that got one."
)
TIME_TO_FIRST_TOKEN = _histogram(
    "time_to_first_token_seconds", TIME_TO_FIRST_TOKEN_S, "Arrival to first event, of streams."
)
TIME_PER_OUTPUT_TOKEN = _histogram(
    "request_time_per_output_token_seconds",
    TIME_PER_OUTPUT_TOKEN_S,
    "Mean time of a stream for each token after its first.",
)
REQUEST_TIME = _histogram(
    "e2e_request_latency_seconds", REQUEST_S, "Arrival to end, of requests with outcome ok."
)
REQUEST_PROMPT_TOKENS = _histogram(
    "request_prompt_tokens", TOKENS, "Tokens of the prompt, of requests with outcome ok."
)
REQUEST_GENERATION_TOKENS = _histogram(
    "request_generation_tokens", TOKENS, "Tokens that were generated, of requests with outcome ok."
)

WAITING = _gauge("num_requests_waiting", "Requests that wait for an instance now.", _SERVICE)
OLDEST_WAIT = _gauge("oldest_wait_seconds", "How long the first of them has been waiting.", _SERVICE)
QUEUE_LIMIT = _gauge("queue_limit", "Requests that may wait in this replica.", _SERVICE)
RUNNING = _gauge("num_requests_running", "Requests that are on an instance now.", _INSTANCE)
RUNNING_LIMIT = _gauge(
    "num_requests_running_limit", "Requests that this replica may have on the instance.", _INSTANCE
)
INSTANCES = _gauge("instances", "Instances by what they are to this replica.", (*_SERVICE, "state"))
CONNECTIONS = _gauge("client_connections", "Open connections of clients.")
LOG_LOST = _counter("access_log_lost", "Lines of the access log that could not be written in time.")
SPANS = _counter("spans_exported", "Spans that the trace collector took.")
SPANS_LOST = _counter("spans_lost", "Spans that the trace collector did not take in time.")

FAMILIES: Final = (
    *(REQUESTS, PROMPT_TOKENS, CACHED_TOKENS, GENERATION_TOKENS, ERRORS, RETRIES, ESTIMATED),
    *(REQUEST_BYTES, RESPONSE_BYTES),
    *(INSTANCE_REQUESTS, INSTANCE_PROMPT_TOKENS, INSTANCE_CACHED_TOKENS, INSTANCE_GENERATION_TOKENS),
    *(QUEUE_TIME, TIME_TO_FIRST_TOKEN, TIME_PER_OUTPUT_TOKEN, REQUEST_TIME),
    *(REQUEST_PROMPT_TOKENS, REQUEST_GENERATION_TOKENS),
    *(WAITING, OLDEST_WAIT, QUEUE_LIMIT, RUNNING, RUNNING_LIMIT, INSTANCES),
    *(CONNECTIONS, LOG_LOST, SPANS, SPANS_LOST),
)
