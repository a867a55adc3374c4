"""What would fit instead? Changes of which each alone is enough, and the smallest accelerator that is.

The condition `ModelFits` and `stoker plan` both say what is found here.

The smallest accelerator is so by memory, with as many as were asked for first and more of them after that.
One of the same vendor is preferred, as an image of the engine is built for one. Rows whose memory nobody
has read are left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from stoker.core.capacity.architecture import ModelConfig
from stoker.core.capacity.catalog import ACCELERATORS, COUNTS, Accelerator
from stoker.core.capacity.container import EngineContainer, settings_on
from stoker.core.capacity.engine_settings import EngineSettings
from stoker.core.capacity.estimate import CapacityEstimate, estimate
from stoker.core.capacity.weights import WeightsSize
from stoker.core.model import Refusal

_MOST_UTILIZATION = 95
"""Per cent of the memory that are still advised. The engine does not start if less than its share is free
(`request_memory` in `vllm/v1/worker/utils.py`), and by then the driver has taken half a GiB: 2 % of an L4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """One change that alone makes it fit."""

    field: str
    """Field of the spec, or argument of the engine."""
    value: str
    estimate: CapacityEstimate
    """With the change."""


def levers(
    model: ModelConfig,
    weights: WeightsSize,
    *,
    accelerator: Accelerator,
    settings: EngineSettings,
    correction: float = 1.0,
) -> tuple[Lever, ...]:
    """The smallest change of each kind that makes it fit, those first that cost least.

    A larger share of the memory costs nothing, a smaller batch costs throughput, an fp8 cache some
    quality, a shorter context some requests, and more accelerators money. Empty when none of them is
    enough alone, as for weights that no such accelerator holds.
    """

    def with_change(changed: EngineSettings) -> CapacityEstimate:
        return estimate(model, weights, accelerator=accelerator, settings=changed, correction=correction)

    longest = with_change(settings).max_context_length
    kinds = (
        ("--gpu-memory-utilization", _larger_shares(settings)),
        ("--max-num-seqs", _smaller_batches(settings)),
        ("model.kvCacheDtype", _smaller_types(model, settings)),
        ("model.contextLength", _shorter_contexts(settings, longest)),
        ("accelerator.count", _more_ranks(accelerator, settings)),
    )
    found = []
    for field, candidates in kinds:
        tried = ((value, with_change(changed)) for value, changed in candidates)
        if first := next((each for each in tried if each[1].fits), None):
            found.append(Lever(field=field, value=first[0], estimate=first[1]))
    return tuple(found)


_Candidates = Iterable[tuple[str, EngineSettings]]
"""A value for people, and the settings with it; the smallest change first."""


def _larger_shares(settings: EngineSettings) -> Iterator[tuple[str, EngineSettings]]:
    for per_cent in range(int(settings.gpu_memory_utilization * 100) + 1, _MOST_UTILIZATION + 1):
        yield f"{per_cent / 100:.2f}", replace(settings, gpu_memory_utilization=per_cent / 100)


def _smaller_batches(settings: EngineSettings) -> Iterator[tuple[str, EngineSettings]]:
    sequences = settings.max_num_seqs // 2
    while sequences:
        yield str(sequences), replace(settings, max_num_seqs=sequences)
        sequences //= 2


def _smaller_types(model: ModelConfig, settings: EngineSettings) -> _Candidates:
    if (settings.kv_cache_dtype, model.kv_cache_dtype) != ("auto", "auto"):
        return ()
    return (("fp8", replace(settings, kv_cache_dtype="fp8")),)


def _shorter_contexts(settings: EngineSettings, longest: int) -> _Candidates:
    return ((str(longest), replace(settings, max_model_len=longest)),) if longest else ()


def _more_ranks(accelerator: Accelerator, settings: EngineSettings) -> Iterator[tuple[str, EngineSettings]]:
    """As many as a node has. The count of a CPU is its NUMA nodes, which no argument follows."""
    tensor = settings.tensor_parallel * 2
    while tensor * settings.pipeline_parallel * settings.data_parallel <= accelerator.per_node:
        more = replace(settings, tensor_parallel=tensor)
        if accelerator.vendor != "cpu":
            yield str(more.ranks), more
        tensor *= 2


def smallest(
    model: ModelConfig,
    weights: WeightsSize,
    *,
    container: EngineContainer,
    instead_of: Accelerator,
    count: int,
) -> str | None:
    """The smallest accelerators that hold the model, for people; None if the catalogue has none.

    Example: an 8B model with 131,072 tokens, asked for on one L4 -> `1 x nvidia-l40s`.
    """
    for number, row in _candidates(instead_of.vendor, count):
        settings = settings_on(row, container, count=number)
        if isinstance(settings, Refusal):
            continue
        if estimate(model, weights, accelerator=row, settings=settings).fits:
            return f"{number} x {row.name}"
    return None


def _candidates(vendor: str, asked: int) -> Iterator[tuple[int, Accelerator]]:
    """Counts and rows in the order in which they are tried."""
    rows = [row for row in ACCELERATORS.values() if row.vendor != "cpu" and not row.estimated]
    for of_vendor in (True, False):
        for count in (asked, *(count for count in COUNTS if count > asked)):
            for row in sorted(rows, key=lambda row: (row.visible_bytes, row.name)):
                if (row.vendor == vendor) == of_vendor and count <= row.per_node:
                    yield count, row
