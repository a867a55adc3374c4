"""What does the engine do with its memory? The arguments of vLLM 0.32 that capacity depends on.

What is not given has vLLM's default, which depends on the memory of the accelerator
(`EngineArgs.get_batch_defaults`). Defaults that depend on the model too are left to whoever knows it.

An argument that vLLM would refuse is refused here, in one sentence, before anything is started.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from stoker.core.capacity.catalog import Accelerator
from stoker.core.capacity.given_arguments import GivenArguments, given_arguments, refused, whole_number
from stoker.core.capacity.kv_dtypes import INEXACT_DTYPES, KV_CACHE_DTYPES
from stoker.core.model import Refusal

_GIB = 1024**3
CPU_KV_SPACE = "VLLM_CPU_KVCACHE_SPACE"
"""GiB of KV cache on CPUs, an environment variable; our image for CPUs sets it to 1."""

_CPU_BLOCK = 128
"""Tokens of a block on CPUs (`CpuPlatform.check_and_update_config`)."""

_NUMBERS = {
    "--block-size": 1_000_000,
    "--data-parallel-size": 1024,
    "--decode-context-parallel-size": 1024,
    "--kv-cache-memory-bytes": 10**15,
    "--max-num-batched-tokens": 10**8,
    "--max-num-seqs": 10**6,
    "--pipeline-parallel-size": 1024,
    "--tensor-parallel-size": 1024,
}
"""Most of each that is not absurd."""
_LONGEST = 10**9
_CHOICES = {
    "--dtype": ("auto", "bfloat16", "float16", "half", "float32", "float"),
    "--kv-cache-dtype": KV_CACHE_DTYPES,
    "--mamba-ssm-cache-dtype": ("auto", "float32", "float16", "bfloat16"),
    "--performance-mode": ("balanced", "interactivity", "throughput"),
}

_NOT_COUNTED = ("--cpu-offload-gb", "--hf-config-path", "--hf-overrides")
"""Arguments that change what the model is or where its weights are."""

_OWN_LAYERS = ("draft_model", "dflash", "dspark")
"""Drafters with layers of their own number and kind."""
_WITHOUT_LAYERS = ("ngram", "ngram_gpu", "medusa", "mlp_speculator", "suffix", "custom_class")
"""Drafters without attention."""
_OVERLAPPING = ("eagle", "eagle3", "mtp", "ngram_gpu", *_OWN_LAYERS)
"""Drafters that asynchronous scheduling works with (`VllmConfig.__post_init__`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Arguments of one engine, with vLLM's defaults filled in."""

    max_num_seqs: int
    """Requests that run at once, at most."""
    max_num_batched_tokens: int
    """Tokens of one step, at most."""
    gpu_memory_utilization: float = 0.92
    """Share of the visible memory that the engine may use; vLLM 0.32's default."""
    max_model_len: int | None = None
    """Most tokens of one request; None as the model was made for."""
    auto_max_model_len: bool = False
    """Whether the engine lowers the length to what fits (`--max-model-len auto`)."""
    kv_cache_dtype: str = "auto"
    """`auto` is the model's own type; `fp8`, `fp8_e4m3`, `fp8_e5m2`, `fp8_ds_mla`, `nvfp4` ..."""
    state_bytes_per_element: int | None = None
    """Of a recurrent state; None as the model says (`--mamba-ssm-cache-dtype auto`)."""
    block_size: int = 16
    """Tokens of one block of the KV cache."""
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    """Engines of one instance, each with the whole model and a KV cache of its own."""
    decode_context_parallel: int = 1
    expert_parallel: bool = False
    kv_cache_memory_bytes: int | None = None
    """KV cache per rank as the user sets it, instead of what is left; None lets vLLM compute it."""
    speculative_layers: int = 0
    """Attention layers of a drafter (EAGLE, MTP), which keep keys and values too."""
    speculative_tokens: int = 0
    """Tokens that a drafter proposes at a time."""
    concurrent_batches: int = 2
    """Steps that may be under way at once: one for each pipeline rank, and one more with asynchronous
    scheduling, which is the default on GPUs."""
    hybrid_kv_cache: bool = True
    """Whether layers with a window or a chunk keep only that."""
    prefix_caching: bool = True
    cuda_graphs: bool = True
    unknown: tuple[str, ...] = ()
    """What the arguments leave open, one sentence each."""

    @property
    def ranks(self) -> int:
        """Accelerators that one instance uses."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel


def engine_settings(
    args: Sequence[str],
    *,
    accelerator: Accelerator,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> EngineSettings | Refusal:
    """What vLLM makes of its arguments on this accelerator; or why it would not start with them.

    Example: `--max-model-len 32k -tp 2` on an H100 are 32,000 tokens, two ranks, and vLLM's own 1,024
    requests and 8,192 tokens of a step.
    """
    given = given_arguments(args)
    if isinstance(given, Refusal):
        return given
    numbers = _numbers(given, accelerator, environment)
    if isinstance(numbers, Refusal):
        return numbers
    wrong = _wrong_choice(given) or _wrong_split(numbers)
    if wrong:
        return wrong
    utilization = _utilization(given)
    length = _max_model_len(given)
    draft = _draft(given)
    if isinstance(utilization, Refusal):
        return utilization
    if isinstance(length, Refusal):
        return length
    if isinstance(draft, Refusal):
        return draft
    method, drafted, layers = draft
    batch = _batch(given, numbers, accelerator=accelerator, length=length)
    if isinstance(batch, Refusal):
        return batch
    sequences, tokens = batch
    pipeline = numbers.get("--pipeline-parallel-size", 1)
    overlaps = accelerator.vendor != "cpu" and (not method or method in _OVERLAPPING)
    dtype = given.values.get("--kv-cache-dtype", "auto")
    return EngineSettings(
        max_num_seqs=sequences,
        max_num_batched_tokens=tokens,
        gpu_memory_utilization=utilization,
        max_model_len=length or None,
        auto_max_model_len=length == 0,
        kv_cache_dtype=dtype,
        state_bytes_per_element={"float32": 4, "float16": 2, "bfloat16": 2}.get(
            given.values.get("--mamba-ssm-cache-dtype", "auto")
        ),
        block_size=numbers.get("--block-size", _CPU_BLOCK if accelerator.vendor == "cpu" else 16),
        tensor_parallel=numbers.get("--tensor-parallel-size", 1),
        pipeline_parallel=pipeline,
        data_parallel=numbers.get("--data-parallel-size", 1),
        decode_context_parallel=numbers.get("--decode-context-parallel-size", 1),
        expert_parallel=given.switches.get("--enable-expert-parallel", False),
        kv_cache_memory_bytes=numbers.get("--kv-cache-memory-bytes"),
        speculative_layers=layers,
        speculative_tokens=drafted,
        concurrent_batches=pipeline + (overlaps and given.switches.get("--async-scheduling", True)),
        hybrid_kv_cache=not given.switches.get("--disable-hybrid-kv-cache-manager", False),
        prefix_caching=given.switches.get("--enable-prefix-caching", True),
        cuda_graphs=accelerator.vendor not in ("cpu", "google")
        and not given.switches.get("--enforce-eager", False),
        unknown=tuple(_unknown(given, method=method, dtype=dtype)),
    )


def _numbers(
    given: GivenArguments, accelerator: Accelerator, environment: Mapping[str, str]
) -> dict[str, int] | Refusal:
    numbers: dict[str, int] = {}
    for name, most in _NUMBERS.items():
        number = whole_number(given.values, name, most=most)
        if isinstance(number, Refusal):
            return number
        if number is not None:
            numbers[name] = number
    if accelerator.vendor == "cpu" and environment.get(CPU_KV_SPACE):
        # It wins over the argument (`CpuPlatform.check_and_update_config`).
        space = whole_number(environment, CPU_KV_SPACE, most=10**6, where="engine.env")
        if isinstance(space, Refusal):
            return space
        numbers["--kv-cache-memory-bytes"] = (space or 0) * _GIB
    return numbers


def _wrong_choice(given: GivenArguments) -> Refusal | None:
    for name, known in _CHOICES.items():
        if (value := given.values.get(name, known[0])) not in known:
            return refused(f"{name} is `{value}`, which vLLM does not know; it takes {', '.join(known)}")
    return None


def _wrong_split(numbers: Mapping[str, int]) -> Refusal | None:
    context = numbers.get("--decode-context-parallel-size", 1)
    tensor = numbers.get("--tensor-parallel-size", 1)
    if tensor % context:
        return refused(
            f"--decode-context-parallel-size is {context}, which does not divide the {tensor} ranks of "
            "--tensor-parallel-size; give a divisor"
        )
    return None


def _utilization(given: GivenArguments) -> float | Refusal:
    text = given.values.get("--gpu-memory-utilization", "0.92")
    try:
        utilization = float(text)
    except ValueError:
        utilization = 0
    if not 0 < utilization <= 1:
        return refused(f"--gpu-memory-utilization is {text}; give a share above 0, at most 1")
    return utilization


def _max_model_len(given: GivenArguments) -> int | Refusal | None:
    """The length; None if none was given, and 0 for whatever fits."""
    if given.values.get("--max-model-len", "").strip().lower() in ("auto", "-1"):
        return 0
    return whole_number(given.values, "--max-model-len", most=_LONGEST)


def _draft(given: GivenArguments) -> tuple[str, int, int] | Refusal:
    """The drafter's method (empty without one), the tokens it proposes, and its attention layers.

    EAGLE's drafter and an MTP module are one layer like the model's own. A method that is not named is
    told by the drafter's name, as vLLM tells it.
    """
    if not given.speculative:
        return "", 0, 0
    tokens = whole_number(
        {name: str(value) for name, value in given.speculative.items()}, "num_speculative_tokens", most=1000
    )
    if isinstance(tokens, Refusal):
        return tokens
    method = str(given.speculative.get("method") or _told_by_name(str(given.speculative.get("model", ""))))
    if method.endswith("_mtp"):
        method = "mtp"
    without_layers = method in _WITHOUT_LAYERS or method in _OWN_LAYERS
    return method, tokens or 0, 0 if without_layers else 1


def _told_by_name(model: str) -> str:
    """Source: `SpeculativeConfig.__post_init__`."""
    model = model.lower()
    if "eagle-" in model or "eagle3" in model:
        return "eagle"
    return next((method for method in ("dflash", "dspark", "medusa") if method in model), "draft_model")


def _batch(
    given: GivenArguments, numbers: Mapping[str, int], *, accelerator: Accelerator, length: int | None
) -> tuple[int, int] | Refusal:
    """Requests at once and tokens of a step.

    Source: `EngineArgs._set_default_max_num_seqs_and_batched_tokens_args`.
    """
    ranks = numbers.get("--tensor-parallel-size", 1) * numbers.get("--pipeline-parallel-size", 1)
    sequences, tokens = _batch_defaults(accelerator, ranks=ranks)
    if given.values.get("--performance-mode") == "throughput":
        sequences, tokens = sequences * 2, tokens * 2
    sequences = numbers.get("--max-num-seqs", sequences)
    if "--max-num-batched-tokens" in numbers:
        tokens = numbers["--max-num-batched-tokens"]
    elif length:
        tokens = min(tokens, sequences * length)
    if "--max-num-seqs" not in numbers:
        sequences = min(sequences, tokens)
    if tokens < sequences:
        return refused(
            f"--max-num-batched-tokens ({tokens}) is less than --max-num-seqs ({sequences}); "
            "a step has a token for each request, so raise it or lower --max-num-seqs"
        )
    return sequences, tokens


def _batch_defaults(accelerator: Accelerator, *, ranks: int) -> tuple[int, int]:
    """vLLM's own requests at once and tokens of a step, for its server.

    Source: `EngineArgs.get_batch_defaults`. An A100 counts as small: a large step made it slower.
    """
    if accelerator.vendor == "cpu":
        return 128 * ranks, 2048 * ranks
    if accelerator.visible_bytes >= 160 * _GIB:
        return 1024, 16_384
    if accelerator.visible_bytes >= 70 * _GIB and "a100" not in accelerator.name:
        return 1024, 8192
    return 256, {"google-tpu-v6e": 1024, "google-tpu-v5e": 512}.get(accelerator.name, 2048)


def _unknown(given: GivenArguments, *, method: str, dtype: str) -> list[str]:
    unknown = []
    if "--config" in given.values:
        unknown.append("`--config` names a file in the image that is not read; what it sets is not counted.")
    unknown += [f"What `{name}` changes is not counted." for name in _NOT_COUNTED if name in given.values]
    if method in _OWN_LAYERS:
        unknown.append(f"A drafter of method `{method}` has layers of its own, whose memory is not counted.")
    if dtype in INEXACT_DTYPES:
        unknown.append(f"KV cache in `{dtype}` is counted as one byte for each element; it takes less.")
    return unknown
