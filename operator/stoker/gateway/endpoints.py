"""What does this gateway do with a path?

It relays what has a model to route by: the paths of OpenAI's API, those that vLLM and SGLang added,
and any other `/v1/*`, so that a new one of an engine works without a new gateway. What would change
an engine for everybody (loading an adapter, resetting a cache, sleeping) is not relayed.
"""

from dataclasses import dataclass

from stoker.gateway.errors import Code, Rejection
from stoker.gateway.request_head import RequestHead

MODELS = "/v1/models"
_FORM = b"multipart/form-data"
_JSON = b"application/json"
_NOT_FOR_CLIENTS = frozenset({"/v1/load_lora_adapter", "/v1/unload_lora_adapter"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How the body of a request to a path is read."""

    prompt_key: bytes = b'"input"'
    """Key of the body that holds the prompt."""
    takes_stream_options: bool = False
    """Whether a stream says its usage when `stream_options.include_usage` asks for it."""
    form: bool = False
    """Whether the body is a form with a file, not JSON."""


_OTHER = Endpoint()
_CHAT = Endpoint(prompt_key=b'"messages"', takes_stream_options=True)
_COMPLETIONS = Endpoint(prompt_key=b'"prompt"', takes_stream_options=True)
_AUDIO = Endpoint(form=True)
_ENDPOINTS = {
    "/v1/chat/completions": _CHAT,
    "/v1/completions": _COMPLETIONS,
    "/v1/embeddings": _OTHER,
    "/v1/responses": _OTHER,
    "/v1/audio/transcriptions": _AUDIO,
    "/v1/audio/translations": _AUDIO,
    "/score": _OTHER,
    "/rerank": _OTHER,
    "/pooling": _OTHER,
    "/classify": _OTHER,
    "/tokenize": _OTHER,
    "/detokenize": _OTHER,
    "/v2/rerank": _OTHER,
}


def endpoint_of(path: str) -> Endpoint | None:
    """What is done with this path; None if nothing is."""
    endpoint = _ENDPOINTS.get(path)
    if endpoint is None and path.startswith("/v1/") and path not in _NOT_FOR_CLIENTS:
        return _OTHER
    return endpoint


def check(head: RequestHead, endpoint: Endpoint | None) -> Rejection | None:
    """What is wrong with a request that would be relayed, as far as its head tells."""
    if endpoint is None:
        return Rejection(
            code=Code.NOT_FOUND,
            message=f"There is nothing at {head.path}; the API is under /v1, such as /v1/chat/completions.",
        )
    if head.method != "POST":
        return Rejection(code=Code.METHOD_NOT_ALLOWED, message=f"{head.path} takes POST, not {head.method}.")
    content_type = head.headers.get(b"content-type", b"")
    expected = _FORM if endpoint.form else _JSON
    if content_type != expected and content_type.partition(b";")[0].strip().lower() != expected:
        return Rejection(
            code=Code.UNSUPPORTED_MEDIA_TYPE,
            message=f"{head.path} takes a body of type {expected.decode()}; say so in `Content-Type`.",
        )
    if head.headers.get(b"content-encoding", b"identity") != b"identity":
        return Rejection(
            code=Code.UNSUPPORTED_MEDIA_TYPE,
            message="Compressed bodies are not read here; send the body without `Content-Encoding`.",
        )
    return None
