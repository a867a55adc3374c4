"""Answers in the shape of vLLM 0.32: every field, in its order, null where vLLM says null."""

import json
import time
import uuid
from typing import Any

from e2e.stand_in_engine.body import Generate

DONE = b"data: [DONE]\n\n"


def event(document: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return f"data: {json.dumps(document, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


def error_event(document: dict[str, Any]) -> bytes:
    """An error inside a stream, which vLLM writes with spaces."""
    return f"data: {json.dumps(document)}\n\n".encode()


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    """The tokens of a request."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


def embeddings(
    vectors: list[dict[str, Any]], *, model: str, request_id: str | None, prompt_tokens: int
) -> dict[str, Any]:
    """The answer to a request for embeddings."""
    return {
        "id": new_id("embd", request_id),
        "object": "list",
        "created": int(time.time()),
        "model": model,
        "data": vectors,
        "usage": usage(prompt_tokens, 0) | {"prompt_tokens_details": None, "completion_tokens_details": None},
    }


def new_id(prefix: str, request_id: str | None) -> str:
    """The id of an answer; a client may give its own in `x-request-id`."""
    return f"{prefix}-{request_id or uuid.uuid4().hex[:16]}"


class Shape:
    """How the answer to one request looks, whole or streamed."""

    def __init__(self, request: Generate, *, model: str, request_id: str | None, fingerprint: str) -> None:
        self._request = request
        self._chat = request.chat
        self._fingerprint = fingerprint
        self._model = model
        self._head: dict[str, Any] = {
            "id": new_id("chatcmpl" if request.chat else "cmpl", request_id),
            "object": "chat.completion.chunk" if request.chat else "text_completion",
            "created": int(time.time()),
            "model": model,
        }

    def opening(self, choice: int, *, prompt_tokens: int) -> bytes | None:
        """What a stream sends before the first token of a choice: in a chat, the role."""
        if not self._chat:
            return None
        delta = {"role": "assistant", "content": ""}
        document = self._head | {
            "choices": [{"index": choice, "delta": delta, "logprobs": None, "finish_reason": None}]
        }
        if self._request.continuous_usage:
            document["usage"] = self._continuous(prompt_tokens, 0)
        return event(document | {"prompt_token_ids": None, "prompt_text": None})

    def piece(
        self, choice: int, *, text: str, finish_reason: str | None, prompt_tokens: int, made: int
    ) -> bytes:
        """The next tokens of a choice in a stream."""
        body: dict[str, Any]
        if self._chat:
            body = {
                "index": choice,
                "delta": {"content": text},
                "logprobs": None,
                "finish_reason": finish_reason,
            }
            if finish_reason:
                body["stop_reason"] = None
        else:
            body = {"index": choice, "text": text, "logprobs": None, "finish_reason": finish_reason}
            body |= {"stop_reason": None, "prompt_token_ids": None}
        document = self._head | {"choices": [body | {"token_ids": None}]}
        if self._request.continuous_usage:
            document["usage"] = self._continuous(prompt_tokens, made)
        if finish_reason and not self._request.include_usage:
            document["system_fingerprint"] = self._fingerprint
        return event(document)

    def closing(self, *, prompt_tokens: int, completion_tokens: int) -> bytes | None:
        """The usage at the end of a stream, if the client asked for it."""
        if not self._request.include_usage:
            return None
        return event(
            self._head
            | {
                "choices": [],
                "usage": usage(prompt_tokens, completion_tokens),
                "system_fingerprint": self._fingerprint,
            }
        )

    def whole(
        self, choices: list[tuple[str, str]], *, prompt_tokens: int, completion_tokens: int
    ) -> dict[str, Any]:
        """The answer in one piece; each choice is its text and why it ended."""
        details = {"prompt_tokens_details": None, "completion_tokens_details": None}
        document = self._head | {
            "choices": [self._choice(place, text, why) for place, (text, why) in enumerate(choices)],
            "service_tier": None,
            "system_fingerprint": self._fingerprint,
            "usage": usage(prompt_tokens, completion_tokens) | details,
        }
        if self._chat:
            document["object"] = "chat.completion"
            document |= {"prompt_logprobs": None, "prompt_token_ids": None, "prompt_text": None}
        return document | {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}

    def _choice(self, place: int, text: str, finish_reason: str) -> dict[str, Any]:
        ended = {"logprobs": None, "finish_reason": finish_reason, "stop_reason": None, "token_ids": None}
        if not self._chat:
            prompt = {"prompt_logprobs": None, "prompt_token_ids": None}
            return {"index": place, "text": text} | ended | prompt | {"routed_experts": None}
        message = {"role": "assistant", "content": text, "refusal": None, "annotations": None}
        message |= {"audio": None, "function_call": None, "reasoning": None}
        return {"index": place, "message": message} | ended | {"routed_experts": None}

    def _continuous(self, prompt_tokens: int, made: int) -> dict[str, Any]:
        details = {"completion_tokens_details": None} if self._chat else {}
        return usage(prompt_tokens, made) | details
