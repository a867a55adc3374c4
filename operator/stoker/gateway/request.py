"""Which model is asked, and what does the engine get?

Of the body only the keys that matter here are decoded. What the engine gets is the client's own
bytes, with keys added at the end where something must change: of a key that is there twice, every
JSON reader of the engines takes the last one (as this one does), so nothing needs to be written anew.

Rejected: decoding and encoding the whole body (1 ms of standstill for all streams with a prompt of
512 KB, and numbers change on the way); the standard library's decoder, which can't pass over a value:
7, 109 and 950 us for bodies of 1, 64 and 512 KB, against 1, 29 and 267 us.
"""

import json
import re
from typing import Any

import msgspec

from stoker.gateway.endpoints import Endpoint
from stoker.gateway.errors import Code, Rejection
from stoker.gateway.rendezvous import key_of

_PREFIX_BYTES = 1024
"""So much of the prompt decides where it goes; a shorter one is cheap to read anew."""
BYTES_PER_TOKEN = 4
"""Where tokens must be guessed."""
_EMBEDDED = b";base64,"
"""In the URL of data that is in the body itself (RFC 2397)."""
_FIELDS_WITHIN_BYTES = 64 * 1024
"""A form's fields are looked for in so much of its beginning and its end, around the file."""
_BOUNDARY = re.compile(rb'boundary="?([0-9A-Za-z\'()+_,./:=? -]{1,70})"?')
_CLOSING_BRACE = ord("}")


class _Fields(msgspec.Struct):
    """The keys that are decoded; anything may be in them."""

    model: Any = None
    stream: Any = None
    stream_options: Any = None
    max_completion_tokens: Any = None
    max_tokens: Any = None
    max_output_tokens: Any = None


_decode = msgspec.json.Decoder(_Fields).decode


class RequestBody:
    """What the body of a request says."""

    __slots__ = (
        "_content",
        "_is_form",
        "_options",
        "_takes_stream_options",
        "asks_usage",
        "model",
        "prefix_key",
        "stream",
        "tokens",
    )

    def __init__(self, content: bytes, *, model: str, stream: bool) -> None:
        self._content = content
        self._is_form = False
        self._options: dict[str, Any] | None = None
        self._takes_stream_options = False
        self.model = model
        """As the client named it; empty if it named none, which only a form may."""
        self.stream = stream
        self.asks_usage = False
        """Whether the client itself asked for the usage of its stream."""
        self.tokens = 0
        """Tokens that it will take at most; the prompt's are estimated."""
        self.prefix_key: int | None = None
        """Stands for the beginning of the prompt; None if it does not matter."""

    @property
    def adds_usage(self) -> bool:
        """Whether the engine is asked for a usage that the client did not ask for."""
        return self.stream and self._takes_stream_options and not self.asks_usage

    def forget(self) -> None:
        """Keep only what was read of it."""
        self._content = b""

    def to_send(self, model: str) -> tuple[bytes, bytes]:
        """The body for the engine, in two parts; `model` is the name that the engine knows."""
        additions = b""
        if self.adds_usage:
            options = {**(self._options or {}), "include_usage": True}
            additions = _ASKS_USAGE if len(options) == 1 else _addition("stream_options", options)
        if model != self.model and not self._is_form:
            additions += _addition("model", model)
        if not additions:
            return self._content, b""
        return self._content[: self._content.rindex(b"}")], additions + b"}"


def _addition(key: str, value: object) -> bytes:
    return f",{json.dumps(key)}:{json.dumps(value)}".encode()


_ASKS_USAGE = _addition("stream_options", {"include_usage": True})


def read_request(content: bytes, *, endpoint: Endpoint, content_type: bytes) -> RequestBody | Rejection:
    """Read the body of a request to this endpoint."""
    if endpoint.form:
        return _read_form(content, content_type=content_type)
    try:
        fields = _decode(content)
    except (msgspec.DecodeError, RecursionError):
        read = _decode_leniently(content)
        if isinstance(read, Rejection):
            return read
        fields = read
    model = fields.model
    if not isinstance(model, str) or not model or not model.isprintable():
        return _wrong("model", "name the model to use, as a string")
    stream = fields.stream
    if stream is not None and not isinstance(stream, bool):
        return _wrong("stream", "send true or false")
    options = fields.stream_options
    if options is not None and not isinstance(options, dict):
        return _wrong("stream_options", "send an object")
    body = RequestBody(content, model=model, stream=bool(stream))
    body._takes_stream_options = endpoint.takes_stream_options
    if options is not None:
        body._options = options
        body.asks_usage = options.get("include_usage") is True
    most = fields.max_completion_tokens or fields.max_tokens or fields.max_output_tokens
    # An image or a recording in the body has far fewer tokens than bytes; how many is not known.
    prompt_tokens = 0 if _EMBEDDED in content else len(content) // BYTES_PER_TOKEN
    body.tokens = prompt_tokens + (most if isinstance(most, int) and most > 0 else 0)
    body.prefix_key = _prefix_key(content, endpoint.prompt_key, model)
    return body


def _decode_leniently(content: bytes) -> _Fields | Rejection:
    """As the engines decode it, who take half characters and NaN; and what is wrong, if they would not."""
    try:
        fields = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        return Rejection(code=Code.INVALID_JSON, message=f"The request's body is not valid JSON: {error}.")
    if not isinstance(fields, dict):
        return Rejection(
            code=Code.INVALID_REQUEST, message="The request's body is not a JSON object; send one."
        )
    return _Fields(**{key: fields[key] for key in _Fields.__struct_fields__ if key in fields})


def _prefix_key(content: bytes, prompt_key: bytes, model: str) -> int | None:
    """The same for prompts that begin alike; adapters have their own cache, so the model counts."""
    if len(content) < _PREFIX_BYTES:
        return None
    start = content.find(prompt_key)
    prefix = content[start : start + _PREFIX_BYTES]
    return (
        key_of(model.encode(errors="replace") + prefix)
        if start >= 0 and len(prefix) == _PREFIX_BYTES
        else None
    )


def _wrong(field: str, change: str) -> Rejection:
    return Rejection(
        code=Code.INVALID_REQUEST,
        message=f"`{field}` is missing or wrong in the request's body; {change}.",
        param=field,
    )


def _read_form(content: bytes, *, content_type: bytes) -> RequestBody | Rejection:
    """Read the fields of a form with a file.

    Only what is simple to find is found: `model` and `stream` as parts without further headers, near
    the beginning or the end. Nothing can be changed in it, so a model must have the engine's name.
    """
    found = _BOUNDARY.search(content_type)
    if found is None:
        return Rejection(
            code=Code.INVALID_REQUEST, message="The form has no `boundary` in its `Content-Type`."
        )
    boundary = found[1].strip()
    ends = content[:_FIELDS_WITHIN_BYTES] + b"\r\n" + content[_FIELDS_WITHIN_BYTES:][-_FIELDS_WITHIN_BYTES:]
    model = _form_field(ends, boundary, b"model")
    stream = _form_field(ends, boundary, b"stream").lower() == b"true"
    body = RequestBody(content, model=model.decode(errors="replace"), stream=stream)
    body._is_form = True
    return body


def _form_field(content: bytes, boundary: bytes, name: bytes) -> bytes:
    part = re.search(
        rb'--%b\r\ncontent-disposition: *form-data; *name="?%b"?\r\n\r\n([^\r\n]*)\r\n'
        % (re.escape(boundary), name),
        content,
        re.IGNORECASE,
    )
    return part[1] if part else b""
