"""What has the engine really got: KV cache, weights, memory? As it measured it itself, at its start.

vLLM says most of it twice. The labels of its metric `vllm:cache_config_info` are exact, and its log lines
are rounded, so the labels come first; the log alone tells the bytes. `kv_cache_size_tokens` is the
number of tokens that fit, and not blocks times block size, which is too much for a model whose requests
take blocks from several groups (a sliding window beside full attention, a state beside both).

With several engines in one instance (data parallel) the labels say the tokens of one engine and the
blocks of all (`AsyncMPClient._apply_ready_response`); here everything is of all, but the bytes, which
are of one rank.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker_serving.engine_log import EngineLog

_SERIES = re.compile(r"^vllm:cache_config_info\{(.*)\}", re.M)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """The labels of `vllm:cache_config_info`."""

    engines: int
    """Engines in this instance; each has its own series."""
    labels: Mapping[str, str]
    """Of the first engine."""

    def number(self, label: str) -> float | None:
        """The number that a label says; None if it is missing, `None`, or none above 0."""
        try:
            value = float(self.labels.get(label, ""))
        except ValueError:
            return None
        return value if 0 < value < float("inf") else None


def cache_config_of(metrics: str) -> CacheConfig | None:
    """What the text of `/metrics` says of the cache; None if it says nothing.

    Example: `vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="4096"} 1.0`
    """
    series = [dict(_LABEL.findall(labels)) for labels in _SERIES.findall(metrics)]
    return CacheConfig(engines=len(series), labels=series[0]) if series else None


def report(
    log: EngineLog, cache: CacheConfig | None, *, max_model_len: int | None, visible_bytes: int | None
) -> dict[str, Any] | None:
    """What is known, for `/state`; None until the engine has said how large its KV cache is."""
    cache = cache or CacheConfig(engines=0, labels={})
    tokens, concurrency = log.kv_cache_tokens, log.max_concurrency
    if (exact := cache.number("kv_cache_size_tokens")) is not None:
        tokens = int(exact) * cache.engines
    if (exact := cache.number("kv_cache_max_concurrency")) is not None:
        concurrency = exact * cache.engines
    if tokens is None:
        return None
    return {
        "kvCacheTokens": tokens,
        "maxConcurrency": concurrency,
        "maxModelLen": max_model_len,
        "blocks": _whole(cache.number("num_gpu_blocks")),
        "blockSize": _whole(cache.number("block_size")),
        "kvBytes": _whole(cache.number("kv_cache_memory_bytes")) or log.kv_bytes,
        "weightsBytes": log.weights_bytes,
        "visibleBytes": visible_bytes,
    }


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)
