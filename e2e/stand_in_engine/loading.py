"""What happens between the arguments and the first request: model, weights, KV cache, warm-up.

The log says it in vLLM's words and order, since a supervisor reads them.
"""

import argparse
import time
from dataclasses import dataclass

from e2e.stand_in_engine import crash, model_folder
from e2e.stand_in_engine.faults import Faults
from e2e.stand_in_engine.log import API_SERVER, ENGINE_CORE, logger
from e2e.stand_in_engine.model_folder import Served, StartError
from e2e.stand_in_engine.profiles import Profile
from e2e.stand_in_engine.scheduler import Limits, Scheduler
from e2e.stand_in_engine.timing import BLOCK_TOKENS
from e2e.stand_in_engine.version import VERSION

_GIB = 2**30
_PERFORMANCE_FACTORS = {"balanced": 1, "interactivity": 1, "throughput": 2}
"""vLLM doubles its default limits in `--performance-mode throughput`."""

_CACHE_CONFIG: dict[str, object] = {
    "_block_size_resolved": True,
    "block_size": BLOCK_TOKENS,
    "cache_hit_alignment_tokens": None,
    "effective_attention_block_size": BLOCK_TOKENS,
    "enable_mamba_shared_prefix_checkpoint": False,
    "enable_prefix_caching": False,
    "hash_block_size": None,
    "is_attention_free": False,
    "kv_cache_dtype_skip_layers": [],
    "kv_cache_layout": None,
    "kv_cache_memory_bytes": None,
    "kv_offloading_backend": "native",
    "kv_offloading_size": None,
    "kv_sharing_fast_prefill": False,
    "mamba_block_size": None,
    "mamba_cache_dtype": "auto",
    "mamba_cache_mode": "none",
    "mamba_page_size_padded": None,
    "mamba_ssm_cache_dtype": "float32",
    "num_cpu_blocks": None,
    "prefix_cache_retention_interval": 0,
    "prefix_caching_hash_algo": "sha256",
    "prefix_match_unit": None,
    "replayssm_buffer_len": 16,
    "skip_page_size_padded": None,
    "sliding_window": None,
    "swa_bounded_replay": True,
    "use_kda_recoverssm": False,
    "use_replayssm": False,
    "user_specified_block_size": False,
}
"""vLLM prints every field of its `CacheConfig`; these never change here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """An engine that is ready to serve."""

    served: Served
    scheduler: Scheduler
    cache_config: dict[str, object]
    """For the metric `cache_config_info`."""


def load(arguments: argparse.Namespace, *, profile: Profile, faults: Faults) -> Loaded:
    """Load the model, which takes as long as the profile says; raises `StartError`."""
    log = logger(API_SERVER)
    folder = model_folder.read(arguments.model)
    log.info("Resolved architecture: %s", folder.architecture)
    served = Served(
        names=arguments.served_model_name,
        adapters=arguments.lora_modules if arguments.enable_lora else {},
        root=arguments.model,
        max_model_len=model_folder.context_length(folder, arguments.max_model_len),
    )
    log.info("Using max model len %s", served.max_model_len)
    factor = _PERFORMANCE_FACTORS[arguments.performance_mode]
    max_num_seqs = arguments.max_num_seqs or profile.max_num_seqs * factor
    max_num_batched_tokens = arguments.max_num_batched_tokens or profile.max_num_batched_tokens * factor
    log.info("Chunked prefill is enabled with max_num_batched_tokens=%d.", max_num_batched_tokens)

    log = logger(ENGINE_CORE)
    log.info("Initializing a V1 LLM engine (v%s) with config: model=%r", VERSION, arguments.model)
    log.info("Starting to load model %s...", arguments.model)
    started_s = time.monotonic()
    model_folder.check_weights(folder)
    model_folder.check_adapters(served.adapters)
    time.sleep(profile.load_s + faults.start_delay_s)
    if faults.start_crash is not None:
        crash.end(faults.start_crash)
    load_s = time.monotonic() - started_s
    log.info("Loading weights took %.2f seconds", load_s)
    log.info("Model loading took %s GiB memory and %.6f seconds", profile.memory.weights_gib, load_s)

    limits = Limits(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        blocks=_blocks(arguments, profile, max_num_seqs=max_num_seqs, max_model_len=served.max_model_len),
    )
    concurrency = limits.blocks / _blocks_of_a_request(served.max_model_len)
    kv_tokens = int(concurrency * served.max_model_len)
    log.info(
        "GPU KV cache size: %s tokens, Maximum concurrency for %s tokens per request: %.2fx",
        f"{kv_tokens:,}",
        f"{served.max_model_len:,}",
        concurrency,
    )
    time.sleep(profile.warmup_s)
    log.info("init engine (profile, create kv cache, warmup model) took %.2f s", profile.warmup_s)
    return Loaded(
        served=served,
        scheduler=Scheduler(limits=limits, timing=profile.timing),
        cache_config=_CACHE_CONFIG
        | {
            "cache_dtype": arguments.kv_cache_dtype,
            "gpu_memory_utilization": arguments.gpu_memory_utilization,
            "kv_cache_max_concurrency": concurrency,
            "kv_cache_size_tokens": kv_tokens,
            "num_gpu_blocks": limits.blocks,
            "num_gpu_blocks_override": arguments.num_gpu_blocks_override,
        },
    )


def _blocks_of_a_request(max_model_len: int) -> int:
    return -(-max_model_len // BLOCK_TOKENS)


def _blocks(arguments: argparse.Namespace, profile: Profile, *, max_num_seqs: int, max_model_len: int) -> int:
    """Blocks of KV cache; raises `StartError` if one request of full length does not fit."""
    if arguments.num_gpu_blocks_override:
        blocks: int = arguments.num_gpu_blocks_override
    else:
        kv_dtype_bytes = 1 if arguments.kv_cache_dtype.startswith(("fp8", "int8")) else 2
        blocks = profile.memory.blocks(
            utilization=arguments.gpu_memory_utilization,
            max_num_seqs=max_num_seqs,
            kv_dtype_bytes=kv_dtype_bytes,
        )
        available = profile.memory.kv_available_bytes(
            utilization=arguments.gpu_memory_utilization, max_num_seqs=max_num_seqs
        )
        logger(ENGINE_CORE).info("Available KV cache memory: %s GiB", round(available / _GIB, 2))
    if blocks <= 1:
        raise StartError(
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
            "initializing the engine."
        )
    needed = _blocks_of_a_request(max_model_len)
    if needed > blocks - 1:
        bytes_per_block = BLOCK_TOKENS * profile.memory.kv_bytes_per_token
        raise StartError(
            f"To serve at least one request with the model's max seq len ({max_model_len}), "
            f"({needed * bytes_per_block / _GIB:.2f} GiB KV cache is needed, which is larger than the "
            f"available KV cache memory ({blocks * bytes_per_block / _GIB:.2f} GiB). Based on the available "
            f"memory, the estimated maximum model length is {(blocks - 1) * BLOCK_TOKENS}. Try increasing "
            "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
        )
    return blocks
