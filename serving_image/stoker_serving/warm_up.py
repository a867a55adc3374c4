"""Is the engine able to serve? Only one real token under the right name says so.

An engine can answer `/health` with 200 and list no model (O6), or list it and fail on the first
request. So an instance is ready when `/v1/models` lists every name it should serve and the engine has
generated one token, which also pays for what the first request would compile.
"""

from dataclasses import dataclass
from typing import Any

from stoker_serving.loopback import Engine

_MODELS_TIMEOUT_S = 10.0
_TOKEN_TIMEOUT_S = 300.0
"""The first token may compile kernels; the startup probe is the real bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What the engine says that it serves."""

    names: tuple[str, ...]
    """Every name that a client may ask for, adapters among them."""
    max_model_len: int | None
    """Longest context in tokens; None if the engine does not say."""
    owner: str
    """Who the engine says it is, such as `vllm`."""


class NotWarm(Exception):
    """The engine can't serve yet; the message says why."""


async def warm_up(engine: Engine, names: tuple[str, ...]) -> Served:
    """One attempt; raises NotWarm with a sentence, or OSError while the engine does not answer."""
    served = await _served(engine, names)
    await _one_token(engine, names[0])
    return served


async def _served(engine: Engine, names: tuple[str, ...]) -> Served:
    answer = await engine.get("/v1/models", timeout_s=_MODELS_TIMEOUT_S)
    document = answer.json()
    if answer.status != 200 or not isinstance(document, dict):
        raise NotWarm(f"/v1/models answers {answer.status}: {_short(answer.body)}")
    models: list[dict[str, Any]] = document.get("data") or []
    listed = tuple(str(model.get("id")) for model in models)
    missing = [name for name in names if name not in listed]
    if missing:
        raise NotWarm(
            f"the engine is healthy but does not list {', '.join(missing)}; it lists "
            f"{', '.join(listed) or 'no model'}"
        )
    first = next(model for model in models if model.get("id") == names[0])
    return Served(
        names=listed,
        max_model_len=first.get("max_model_len"),
        owner=str(first.get("owned_by") or "unknown"),
    )


async def _one_token(engine: Engine, name: str) -> None:
    answer = await engine.post(
        "/v1/completions",
        {"model": name, "prompt": "Hello", "max_tokens": 1, "temperature": 0},
        timeout_s=_TOKEN_TIMEOUT_S,
    )
    if answer.status == 404:
        # A model that embeds has no completions.
        answer = await engine.post(
            "/v1/embeddings", {"model": name, "input": "Hello"}, timeout_s=_TOKEN_TIMEOUT_S
        )
    document = answer.json()
    if answer.status != 200 or not isinstance(document, dict):
        raise NotWarm(f"the first request got {answer.status}: {_short(answer.body)}")
    generated = (document.get("usage") or {}).get("completion_tokens")
    if not generated and not document.get("data"):
        raise NotWarm(f"the first request got no token: {_short(answer.body)}")


def _short(body: bytes) -> str:
    return body[:300].decode(errors="replace")
