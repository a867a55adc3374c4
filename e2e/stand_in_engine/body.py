"""The body of a request, checked as vLLM checks it.

Fields that only a model would make use of (temperature apart) are accepted and ignored.
"""

import json
from dataclasses import dataclass
from typing import Any

from e2e.stand_in_engine import errors, tokens

_COMPLETION_TOKENS = 16
"""`max_tokens` of a completion that names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt of a request."""

    token_count: int
    content: str
    """What the answer is made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """A request for text."""

    chat: bool
    model: str | None
    prompts: tuple[Prompt, ...]
    n: int
    max_tokens: int | None
    """None: as many as fit."""
    ignore_eos: bool
    stream: bool
    include_usage: bool
    continuous_usage: bool
    echo: bool


def read_json(body: bytes, content_type: str) -> dict[str, Any]:
    """The body as an object; raises `ApiError`."""
    if content_type.lower().partition(";")[0].strip() != "application/json":
        raise errors.wrong_media_type()
    if not body:
        raise errors.bad_body("missing", at="body", message="Field required", given=None)
    try:
        document = json.loads(body)
    except ValueError as error:
        at = f"body.{getattr(error, 'pos', 0)}"
        why = getattr(error, "msg", str(error))
        raise errors.bad_body(
            "json_invalid", at=at, message="JSON decode error", given={}, why=why
        ) from error
    if not isinstance(document, dict):
        message = "Input should be a valid dictionary or object to extract fields from"
        raise errors.bad_body("model_attributes_type", at="body", message=message, given=document)
    return document


def chat_request(document: dict[str, Any], *, max_model_len: int) -> Generate:
    """A request to `/v1/chat/completions`; raises `ApiError`."""
    messages = messages_of(document)
    max_tokens = _integer(document, "max_completion_tokens")
    if max_tokens is None:
        max_tokens = _integer(document, "max_tokens")
    text = tokens.chat_text(messages)
    check_length(text, max_model_len=max_model_len)
    prompt = Prompt(token_count=tokens.count(text), content=tokens.content_of(messages[-1]))
    return _request(
        document, chat=True, prompts=(prompt,), max_tokens=max_tokens, max_model_len=max_model_len
    )


def completion_request(document: dict[str, Any], *, max_model_len: int) -> Generate:
    """A request to `/v1/completions`; raises `ApiError`."""
    if document.get("prompt") == []:
        raise errors.bad_value("You must pass at least one prompt")
    given = prompts_of(document, "prompt")
    if not given:
        raise errors.bad_value(
            "Either prompt or prompt_embeds must be provided and non-empty.", param="prompt"
        )
    for each in given:
        check_length(each, max_model_len=max_model_len)
    prompts = tuple(_prompt(each) for each in given)
    max_tokens = _integer(document, "max_tokens", default=_COMPLETION_TOKENS)
    return _request(document, chat=False, prompts=prompts, max_tokens=max_tokens, max_model_len=max_model_len)


def messages_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of a conversation; raises `ApiError`."""
    if "messages" not in document:
        raise errors.bad_body("missing", at="body.messages", message="Field required", given=document)
    messages = document["messages"]
    if not isinstance(messages, list):
        message = "Input should be a valid list"
        raise errors.bad_body("list_type", at="body.messages", message=message, given=messages)
    for place, each in enumerate(messages):
        if not isinstance(each, dict):
            message = "Input should be a valid dictionary"
            raise errors.bad_body("dict_type", at=f"body.messages.{place}", message=message, given=each)
    if not messages:
        raise errors.bad_value(
            "Cannot apply chat template to an empty conversation. Provide at least one message."
        )
    return messages


def prompts_of(document: dict[str, Any], field: str) -> list[str | list[int]]:
    """One prompt or several, each as text or as token ids."""
    given = document.get(field)
    if given is None or given in ("", []):
        return []
    if isinstance(given, list) and not isinstance(given[0], int):
        return given
    return [given]


def model_of(document: dict[str, Any]) -> str | None:
    """The model that a request names."""
    model = document.get("model")
    if model is not None and not isinstance(model, str):
        message = "Input should be a valid string"
        raise errors.bad_body("string_type", at="body.model", message=message, given=model)
    return model


def check_length(prompt: "str | list[int]", *, max_model_len: int) -> None:
    """Raises `ApiError` for a prompt that is longer than the context.

    vLLM does not count further than it must: a text is first measured in characters, and tokenised
    only to one token past the limit.
    """
    start = f"This model's maximum context length is {max_model_len} tokens. However, your prompt contains "
    if isinstance(prompt, str):
        most = max_model_len * tokens.MOST_CHARACTERS
        if len(prompt) > most:
            raise errors.bad_value(
                f"{start}{len(prompt)} characters (more than {most} characters, which is the upper bound for "
                f"{max_model_len} input tokens). Please reduce the length of the input prompt.",
                param="input_text",
                value=len(prompt),
            )
    count = tokens.count(prompt)
    if count > max_model_len:
        count = max_model_len + 1 if isinstance(prompt, str) else count
        at_least = "at least " if count == max_model_len + 1 else ""
        raise errors.bad_value(
            f"{start}{at_least}{count} input tokens, which exceeds this limit even without any output "
            "tokens. Please reduce the length of the input prompt.",
            param="input_tokens",
            value=count,
        )


def _prompt(given: str | list[int]) -> Prompt:
    content = given if isinstance(given, str) else " ".join(f"t{each}" for each in given)
    return Prompt(token_count=tokens.count(given), content=content)


def _request(
    document: dict[str, Any],
    *,
    chat: bool,
    prompts: tuple[Prompt, ...],
    max_tokens: int | None,
    max_model_len: int,
) -> Generate:
    stream = bool(document.get("stream"))
    options = document.get("stream_options") or {}
    if options and not stream:
        raise errors.bad_value(
            "Stream options can only be defined when `stream=True`.", param="stream_options"
        )
    n = _integer(document, "n", default=1) or 0
    if n < 1:
        raise errors.bad_value(f"n must be at least 1, got {n}.")
    _check_temperature(document)
    _check_max_tokens(max_tokens, max_model_len=max_model_len)
    return Generate(
        chat=chat,
        model=model_of(document),
        prompts=prompts,
        n=n,
        max_tokens=max_tokens,
        ignore_eos=bool(document.get("ignore_eos")),
        stream=stream,
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("include_usage") and options.get("continuous_usage_stats")),
        echo=bool(document.get("echo")),
    )


def _check_max_tokens(max_tokens: int | None, *, max_model_len: int) -> None:
    if max_tokens is None:
        return
    if max_tokens > max_model_len:
        raise errors.bad_value(
            f"max_tokens={max_tokens} cannot be greater than max_model_len={max_model_len}. "
            "Please request fewer output tokens.",
            param="max_tokens",
            value=max_tokens,
        )
    if max_tokens < 1:
        raise errors.bad_value(
            f"max_tokens must be at least 1, got {max_tokens}.", param="max_tokens", value=max_tokens
        )


def _check_temperature(document: dict[str, Any]) -> None:
    temperature = document.get("temperature")
    if isinstance(temperature, int | float) and temperature < 0:
        raise errors.bad_value(
            f"temperature must be non-negative, got {float(temperature)}.",
            param="temperature",
            value=float(temperature),
        )


def _integer(document: dict[str, Any], name: str, *, default: int | None = None) -> int | None:
    given = document.get(name, default)
    if given is None or (isinstance(given, int) and not isinstance(given, bool)):
        return given
    at = f"body.{name}"
    if isinstance(given, str):
        if given.strip().lstrip("-").isdecimal():
            return int(given)
        message = "Input should be a valid integer, unable to parse string as an integer"
        raise errors.bad_body("int_parsing", at=at, message=message, given=given)
    if isinstance(given, float):
        message = "Input should be a valid integer, got a number with a fractional part"
        raise errors.bad_body("int_from_float", at=at, message=message, given=given)
    raise errors.bad_body("int_type", at=at, message="Input should be a valid integer", given=given)
