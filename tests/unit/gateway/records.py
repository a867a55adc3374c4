"""Records of requests, as the data path makes them."""

from stoker.gateway.outcome import Outcome, RequestRecord


def record(**changes):
    """A stream that went well, but for these fields."""
    fields = {
        "request_id": "r-1",
        "traceparent": "",
        "span": None,
        "service": "chat",
        "namespace": "demo",
        "workload": "batch",
        "model": "chat",
        "adapter": "",
        "model_version": "v7",
        "revision": "r1",
        "instance": "chat-r1-a",
        "path": "/v1/chat/completions",
        "streaming": True,
        "status": 200,
        "outcome": Outcome.OK,
        "code": "",
        "prompt_tokens": 100,
        "cached_tokens": 60,
        "completion_tokens": 21,
        "estimated": False,
        "arrival_s": 1000.0,
        "queue_s": 0.02,
        "first_byte_s": 0.3,
        "inter_token_s": 0.1,
        "events": 11,
        "duration_s": 1.3,
        "retries": 0,
        "request_bytes": 512,
        "response_bytes": 2048,
    }
    return RequestRecord(**(fields | changes))


def refused(code, outcome, **changes):
    """A request that got no instance."""
    fields = {
        "model_version": "",
        "revision": "",
        "instance": "",
        "status": 503,
        "prompt_tokens": 0,
        "cached_tokens": 0,
        "completion_tokens": 0,
        "first_byte_s": None,
        "inter_token_s": None,
        "events": 0,
        "duration_s": 0.001,
        "queue_s": 0.0,
        "response_bytes": 0,
    }
    return record(code=code, outcome=outcome, **(fields | changes))
