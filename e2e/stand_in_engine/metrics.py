"""The metrics of vLLM 0.32 by their exact names, labels and buckets.

They are made with `prometheus_client`, as vLLM's are, so that the text a scraper sees is the same.
Gauges are read from the scheduler at the scrape.

Left at zero, because nothing here does what they count: caches, transfers, multi-modal input.
"""

from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from e2e.stand_in_engine.scheduler import Request, Scheduler, Step

_LATENCY = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
_FIRST_TOKEN = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5),
    *(10, 20, 40, 80, 160, 640, 2560),
)
_BETWEEN_TOKENS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5),
    *(10, 20, 40, 80),
)
_ITERATION_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_CHOICES = (1, 2, 5, 10, 20)
_PREEMPTIONS = (1, 2, 3, 4, 5, 10, 20)

_FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")
_PROMPT_SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
_CACHE_SOURCES = ("device", "host", "p2p", "disk", "external_unspecified")

_UNUSED_COUNTERS = (
    "estimated_flops_per_gpu",
    "estimated_read_bytes_per_gpu",
    "estimated_write_bytes_per_gpu",
    "prefix_cache_queries",
    "prefix_cache_hits",
    "external_prefix_cache_queries",
    "external_prefix_cache_hits",
    "mm_cache_queries",
    "mm_cache_hits",
    "prompt_tokens_cached",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A request that ended by itself, as vLLM counts it; one that was aborted is not counted."""

    request: Request
    reason: str
    n: int
    max_tokens: int
    now_s: float


def token_buckets(max_model_len: int) -> list[float]:
    """1, 2, 5, 10, 20, ... up to the context length, vLLM's buckets for tokens of a request.

    Example: 60 -> 1, 2, 5, 10, 20, 50.
    """
    buckets: list[float] = []
    power = 1
    while power <= max_model_len:
        buckets += [power * mantissa for mantissa in (1, 2, 5) if power * mantissa <= max_model_len]
        power *= 10
    return buckets


class EngineMetrics:
    """vLLM's metrics of one engine."""

    def __init__(
        self,
        *,
        registry: CollectorRegistry,
        scheduler: Scheduler,
        model_name: str,
        max_model_len: int,
        cache_config: dict[str, Any],
    ) -> None:
        self._registry = registry
        self._labels = {"model_name": model_name, "engine": "0"}
        self._gauges(scheduler)
        for name in _UNUSED_COUNTERS:
            self._counter(name, f"Not counted by the stand-in: {name}.")
        self._each(
            "prompt_tokens_cached_by_source", "Cached prompt tokens by tier.", "source", _CACHE_SOURCES
        )
        self._preemptions = self._counter(
            "num_preemptions", "Cumulative number of preemption from the engine."
        )
        self._prompt_tokens = self._counter("prompt_tokens", "Number of prefill tokens processed.")
        by_source = "Number of prompt tokens by source."
        self._prompt_source = self._each("prompt_tokens_by_source", by_source, "source", _PROMPT_SOURCES)
        self._generation_tokens = self._counter("generation_tokens", "Number of generation tokens processed.")
        successes = "Count of successfully processed requests."
        self._success = self._each("request_success", successes, "finished_reason", _FINISH_REASONS)
        self._rejections = Counter(
            "vllm:admission_rejections",
            "Number of admission attempts rejected by a queue limit, by reason.",
            ["model_name", "reason"],
            registry=registry,
        )
        for reason in ("max_num_queued_reqs", "max_num_queued_tokens"):
            self._rejections.labels(model_name=model_name, reason=reason)
        self._histograms(token_buckets(max_model_len))
        info = {key: str(value) for key, value in cache_config.items()} | {"engine": "0"}
        Gauge(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            list(info),
            registry=registry,
        ).labels(**info).set(1)

    def count_step(self, step: Step, *, first: list[Request], made: int) -> None:
        """Count a step: `first` are the requests that made their first token, `made` all tokens made."""
        prompt_tokens = sum(request.prompt_tokens for request in first)
        self._prompt_tokens.inc(prompt_tokens)
        self._prompt_source["local_compute"].inc(prompt_tokens)
        self._generation_tokens.inc(made)
        self._preemptions.inc(step.preempted)
        self._iteration_tokens.observe(step.tokens)
        for request in first:
            assert request.first_token_s is not None
            self._first_token.observe(request.first_token_s - request.arrived_s)

    def count_between_tokens(self, seconds: float) -> None:
        """Count the time between two tokens of a request."""
        self._between_tokens.observe(seconds)

    def count_finished(self, finished: Finished) -> None:
        """Count a request that has made its last token."""
        request = finished.request
        assert request.scheduled_s is not None
        assert request.first_token_s is not None
        assert request.last_token_s is not None
        decode_s = request.last_token_s - request.first_token_s
        self._success[finished.reason].inc()
        self._e2e.observe(finished.now_s - request.arrived_s)
        self._queue.observe(request.scheduled_s - request.arrived_s)
        self._prefill.observe(request.first_token_s - request.scheduled_s)
        self._decode.observe(decode_s)
        self._inference.observe(request.last_token_s - request.scheduled_s)
        self._per_output_token.observe(decode_s / (request.made - 1) if request.made > 1 else 0)
        self._request_preemptions.observe(request.preemptions)
        self._request_prompt_tokens.observe(request.prompt_tokens)
        self._prefill_computed.observe(request.prompt_tokens)
        self._request_generation_tokens.observe(request.made)
        self._max_generation_tokens.observe(request.made)
        self._n.observe(finished.n)
        self._max_tokens.observe(finished.max_tokens)

    def count_rejection(self) -> None:
        """Count a request that the queue limit refused."""
        self._rejections.labels(model_name=self._labels["model_name"], reason="max_num_queued_reqs").inc()

    def _gauges(self, scheduler: Scheduler) -> None:
        running = self._gauge("num_requests_running", "Number of requests in model execution batches.")
        running.set_function(lambda: len(scheduler.running))
        waiting = self._gauge("num_requests_waiting", "Number of requests waiting to be processed.")
        waiting.set_function(lambda: len(scheduler.waiting))
        usage = self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.")
        usage.set_function(lambda: scheduler.kv_usage)
        by_reason = Gauge(
            "vllm:num_requests_waiting_by_reason",
            "Number of waiting requests by reason.",
            [*self._labels, "reason"],
            registry=self._registry,
        )
        by_reason.labels(**self._labels, reason="capacity").set_function(lambda: len(scheduler.waiting))
        by_reason.labels(**self._labels, reason="deferred")
        sleep = Gauge(
            "vllm:engine_sleep_state",
            "Engine sleep state; awake = 1 means engine is awake.",
            [*self._labels, "sleep_state"],
            registry=self._registry,
        )
        for state in ("awake", "weights_offloaded", "discard_all"):
            sleep.labels(**self._labels, sleep_state=state).set(state == "awake")

    def _histograms(self, tokens: list[float]) -> None:
        self._request_prompt_tokens = self._histogram("request_prompt_tokens", tokens)
        self._request_generation_tokens = self._histogram("request_generation_tokens", tokens)
        self._iteration_tokens = self._histogram("iteration_tokens_total", _ITERATION_TOKENS)
        self._max_generation_tokens = self._histogram("request_max_num_generation_tokens", tokens)
        self._n = self._histogram("request_params_n", _CHOICES)
        self._max_tokens = self._histogram("request_params_max_tokens", tokens)
        self._first_token = self._histogram("time_to_first_token_seconds", _FIRST_TOKEN)
        self._between_tokens = self._histogram("inter_token_latency_seconds", _BETWEEN_TOKENS)
        self._per_output_token = self._histogram("request_time_per_output_token_seconds", _BETWEEN_TOKENS)
        self._e2e = self._histogram("e2e_request_latency_seconds", _LATENCY)
        self._queue = self._histogram("request_queue_time_seconds", _LATENCY)
        self._inference = self._histogram("request_inference_time_seconds", _LATENCY)
        self._prefill = self._histogram("request_prefill_time_seconds", _LATENCY)
        self._decode = self._histogram("request_decode_time_seconds", _LATENCY)
        self._request_preemptions = self._histogram("request_num_preemptions", _PREEMPTIONS)
        self._prefill_computed = self._histogram("request_prefill_kv_computed_tokens", tokens)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"vllm:{name}", text, list(self._labels), registry=self._registry).labels(**self._labels)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"vllm:{name}", text, list(self._labels), registry=self._registry).labels(
            **self._labels
        )

    def _each(self, name: str, text: str, label: str, values: tuple[str, ...]) -> dict[str, Counter]:
        counter = Counter(f"vllm:{name}", text, [*self._labels, label], registry=self._registry)
        return {value: counter.labels(**self._labels, **{label: value}) for value in values}

    def _histogram(self, name: str, buckets: "tuple[float, ...] | list[float]") -> Histogram:
        text = f"Histogram of {name.removesuffix('_total').replace('_', ' ')}."
        histogram = Histogram(
            f"vllm:{name}", text, list(self._labels), buckets=buckets, registry=self._registry
        )
        return histogram.labels(**self._labels)
