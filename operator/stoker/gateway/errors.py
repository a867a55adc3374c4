"""What is a client told when its request is not served?

One table of codes, each with its HTTP status and OpenAI's error type, so that a client's library
treats it as it should: it retries 429 and 503 after `Retry-After`, and gives up on the others. The
`code` tells apart what the status does not: a full queue (429 `queue_full`) from a limit of the key
(429 `rate_limited`), no instance from a wait that was too long (both 503).

A rejection is a value, never raised: the one who finds it hands it to whoever writes the answer.
"""

import json
import math
from dataclasses import dataclass
from enum import StrEnum

_INVALID = "invalid_request_error"
_AUTHENTICATION = "authentication_error"
_RATE_LIMIT = "rate_limit_error"
_SERVER = "server_error"


class Code(StrEnum):
    """Why a request was not served, in one word."""

    QUEUE_FULL = "queue_full"
    QUEUE_TOO_SLOW = "queue_too_slow"
    RATE_LIMITED = "rate_limited"
    NO_INSTANCE = "no_instance"
    QUEUE_TIMEOUT = "queue_timeout"
    DRAINING = "draining"
    ENGINE_UNREACHABLE = "engine_unreachable"
    ENGINE_TIMEOUT = "engine_timeout"
    ENGINE_FAILED = "engine_failed"
    MODEL_NOT_FOUND = "model_not_found"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    REQUEST_TIMEOUT = "request_timeout"
    BODY_TOO_LARGE = "body_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    HEADERS_TOO_LARGE = "headers_too_large"
    INVALID_JSON = "invalid_json"
    INVALID_REQUEST = "invalid_request"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    INTERNAL_ERROR = "internal_error"


_ANSWERS: dict[Code, tuple[int, str]] = {
    Code.QUEUE_FULL: (429, _RATE_LIMIT),
    Code.QUEUE_TOO_SLOW: (429, _RATE_LIMIT),
    Code.RATE_LIMITED: (429, _RATE_LIMIT),
    Code.NO_INSTANCE: (503, _SERVER),
    Code.QUEUE_TIMEOUT: (503, _SERVER),
    Code.DRAINING: (503, _SERVER),
    Code.ENGINE_UNREACHABLE: (502, _SERVER),
    Code.ENGINE_TIMEOUT: (504, _SERVER),
    # Also the event that ends a stream whose engine died.
    Code.ENGINE_FAILED: (502, _SERVER),
    Code.MODEL_NOT_FOUND: (404, _INVALID),
    Code.NOT_FOUND: (404, _INVALID),
    Code.METHOD_NOT_ALLOWED: (405, _INVALID),
    Code.REQUEST_TIMEOUT: (408, _INVALID),
    Code.BODY_TOO_LARGE: (413, _INVALID),
    Code.UNSUPPORTED_MEDIA_TYPE: (415, _INVALID),
    Code.HEADERS_TOO_LARGE: (431, _INVALID),
    Code.INVALID_JSON: (400, _INVALID),
    Code.INVALID_REQUEST: (400, _INVALID),
    Code.UNAUTHORIZED: (401, _AUTHENTICATION),
    Code.FORBIDDEN: (403, _AUTHENTICATION),
    Code.INTERNAL_ERROR: (500, _SERVER),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A request that is not served, and why."""

    code: Code
    message: str
    """One sentence: what is wrong, where, what to change."""
    retry_after_s: float | None = None
    """Seconds after which another try makes sense; None if it would end the same."""
    param: str | None = None
    """Field of the request that is wrong."""

    @property
    def status(self) -> int:
        """HTTP status."""
        return _ANSWERS[self.code][0]

    @property
    def type(self) -> str:
        """OpenAI's error type."""
        return _ANSWERS[self.code][1]

    @property
    def retry_after(self) -> int | None:
        """Value of the `Retry-After` header: whole seconds, never too early (RFC 9110, section 10.2.3)."""
        return None if self.retry_after_s is None else math.ceil(self.retry_after_s)

    def body(self) -> bytes:
        """Body of the answer, in OpenAI's shape."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return json.dumps({"error": error}).encode()

    def event(self) -> bytes:
        """The event that ends a stream which had begun."""
        return b"data: " + self.body() + b"\n\n"
