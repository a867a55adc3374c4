"""What became of a request?

One record for each request, made once, when nothing more can happen to it. Metrics, access log,
traces and accounts are all made of it, so that they can't disagree.
"""

from dataclasses import dataclass
from enum import StrEnum

from stoker.gateway.errors import Code
from stoker.gateway.traces import Span


class Outcome(StrEnum):
    """How a request ended; exactly one for each."""

    OK = "ok"
    """The engine's whole answer went to the client."""
    CLIENT_GONE = "client_gone"
    """The client left before the end of its answer."""
    SHED = "shed"
    """Refused to protect those who were already in: a full queue, a long wait, a limit, no instance."""
    TIMEOUT = "timeout"
    """The engine, or a client that was sending its request, was silent for too long."""
    UPSTREAM_ERROR = "upstream_error"
    """The engine failed or could not be reached."""
    BAD_REQUEST = "bad_request"
    """The request is wrong; to send it again would not help."""
    OUT_OF_MEMORY = "out_of_memory"
    """The engine says that it ran out of memory."""


_OF_CODES = {
    Code.QUEUE_FULL: Outcome.SHED,
    Code.QUEUE_TOO_SLOW: Outcome.SHED,
    Code.RATE_LIMITED: Outcome.SHED,
    Code.NO_INSTANCE: Outcome.SHED,
    Code.QUEUE_TIMEOUT: Outcome.SHED,
    Code.DRAINING: Outcome.SHED,
    Code.ENGINE_UNREACHABLE: Outcome.UPSTREAM_ERROR,
    Code.ENGINE_FAILED: Outcome.UPSTREAM_ERROR,
    Code.INTERNAL_ERROR: Outcome.UPSTREAM_ERROR,
    Code.ENGINE_TIMEOUT: Outcome.TIMEOUT,
    Code.REQUEST_TIMEOUT: Outcome.TIMEOUT,
}


def outcome_of_code(code: Code) -> Outcome:
    """The outcome of a request that this gateway refused."""
    return _OF_CODES.get(code, Outcome.BAD_REQUEST)


def outcome_of_status(status: int) -> Outcome:
    """The outcome of a request that an engine answered."""
    if status < 400:
        return Outcome.OK
    if status in (429, 503):
        return Outcome.SHED
    if status < 500:
        return Outcome.BAD_REQUEST
    return Outcome.TIMEOUT if status == 504 else Outcome.UPSTREAM_ERROR


@dataclass(slots=True, kw_only=True)
class RequestRecord:
    """One request, from its arrival to its end. Times in seconds on the monotonic clock.

    Nobody changes it, but it is not frozen: with so many fields that would cost 8 us for each request.
    """

    request_id: str
    traceparent: str
    """The client's W3C trace context; empty if it sent none."""
    span: Span | None
    """This gateway's part of the trace; None if it makes no traces."""
    service: str
    """Empty if no service serves what the request asked for."""
    namespace: str
    workload: str
    """Who the request is for."""
    model: str
    """Model as the client named it."""
    adapter: str
    """Adapter that the request used; empty for none."""
    model_version: str
    revision: str
    instance: str
    """Pod that answered; empty if none did."""
    path: str
    streaming: bool
    status: int
    """HTTP status that the client got; 0 if it got none."""
    outcome: Outcome
    code: str
    """The code of the refusal or the error; empty if there was none."""
    prompt_tokens: int
    cached_tokens: int
    """Those of the prompt tokens that came from the prefix cache."""
    completion_tokens: int
    estimated: bool
    """Whether the tokens were counted here, since the engine's figures never came."""
    arrival_s: float
    """When the head of the request was complete."""
    queue_s: float
    """How long it waited for an instance, over all attempts."""
    first_byte_s: float | None
    """Arrival to first byte of the answer, which for a stream is its first event; None without an answer."""
    inter_token_s: float | None
    """Mean time between the events of a stream; None with fewer than two."""
    events: int
    """Events of the stream that carried content."""
    duration_s: float
    """Arrival to end."""
    retries: int
    """Times it was sent to another instance."""
    request_bytes: int
    response_bytes: int
    """Bytes of the answer's body."""
