"""How many requests does one instance hold, as `status.capacity` says it?

Before the first start the estimate speaks; once an instance is Ready and its engine has said what it
measured, that does, and it stays: an operator that was restarted has not heard the instances yet, and
goes on saying what was measured. Instances of one revision differ by some blocks, as nodes do. The
smallest counts, because requests are spread evenly; so the number does not follow the order in which
they answer.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor

from stoker.core import pods as pod_readings
from stoker.core.capacity.estimate import CapacityEstimate, explain
from stoker.core.model import JsonObject, MeasuredCapacity, Observed

_MEASURED, _ESTIMATED = "measured", "estimated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the Ready instances of a revision measured."""

    smallest: MeasuredCapacity
    whole: bool
    """Whether all of them have said it."""


def measured(observed: Observed, *, revision: str) -> Measured | None:
    """The smallest KV cache among the Ready instances of a revision; None if none has said."""
    ready = [
        pod_readings.name_of(pod)
        for pod in observed.pods
        if pod_readings.revision_of(pod) == revision and pod_readings.is_ready(pod)
    ]
    said = list(_capacities(observed, ready))
    if not said:
        return None
    return Measured(smallest=min(said, key=_size), whole=len(said) == len(ready))


def is_measured(record: JsonObject, *, revision: str) -> bool:
    """Whether a `status.capacity` tells what instances of this revision measured."""
    return record.get("revision") == revision and record.get("source") == _MEASURED


def ratio_of(found: MeasuredCapacity, estimate: CapacityEstimate) -> float | None:
    """KV cache as measured over KV cache as estimated; None where the estimate has none to compare."""
    pairs = ((found.kv_bytes, estimate.budget.kv), (found.kv_cache_tokens, estimate.kv_cache_tokens))
    for said, expected in pairs:
        if said is not None and expected > 0:
            return round(said / expected, 3)
    return None


def estimated_record(estimate: CapacityEstimate, *, revision: str, ratio: float | None) -> JsonObject:
    """`status.capacity` before an instance of the revision has started.

    `ratio` is what the estimate was corrected with, as engines with the same inputs measured.
    """
    return _filled(
        {
            "revision": revision,
            "source": _ESTIMATED,
            "requestsPerInstance": estimate.requests,
            "contextLength": estimate.context_length,
            "maxContextLength": estimate.max_context_length,
            "kvCacheTokens": max(estimate.kv_cache_tokens, 0),
            "maxNumSeqs": estimate.settings.max_num_seqs * estimate.settings.data_parallel,
            "measuredToEstimated": ratio,
            "arithmetic": explain(estimate),
        }
    )


def measured_record(
    found: Measured,
    *,
    revision: str,
    estimate: CapacityEstimate | None,
    ratio: float | None,
    most: int | None,
    before: JsonObject,
) -> JsonObject:
    """`status.capacity` once instances have measured.

    `estimate` is the one that was corrected with their `ratio`; `most` are the requests that the engine
    runs at once at most, None if that is not known. While some have not said anything, what was said
    `before` holds, unless another one holds less.

    Example: 470,016 tokens, 14.34 requests of 32,768 -> 14 requests.
    """
    length = found.smallest.max_model_len or (estimate.context_length if estimate else None)
    tokens = found.smallest.kv_cache_tokens
    concurrency = found.smallest.max_concurrency
    if concurrency is None and length and tokens is not None:
        concurrency = tokens / length
    requests = None if concurrency is None else min(floor(concurrency), most or floor(concurrency))
    words = [] if tokens is None else [f"{tokens:,} tokens of KV cache"]
    if concurrency is not None:
        words.append(f"{concurrency:.2f} requests" + (f" of {length:,} tokens" if length else ""))
    if most and concurrency and most < floor(concurrency):
        words.append(f"at most {most} at once (max_num_seqs)")
    if ratio:
        words.append(f"{ratio:g} of the estimate")
    record = _filled(
        {
            "revision": revision,
            "source": _MEASURED,
            "requestsPerInstance": requests,
            "contextLength": length,
            "maxContextLength": estimate.max_context_length if estimate else None,
            "kvCacheTokens": tokens,
            "maxNumSeqs": most,
            "measuredToEstimated": ratio,
            "arithmetic": f"measured by the engine: {', '.join(words)}",
        }
    )
    if not found.whole and is_measured(before, revision=revision) and _order(before) <= _order(record):
        return before
    return record


def _capacities(observed: Observed, pods: Iterable[str]) -> Iterable[MeasuredCapacity]:
    for pod in pods:
        report = observed.reports.get(pod)
        if report and report.capacity and any(_size(report.capacity)):
            yield report.capacity


def _size(found: MeasuredCapacity) -> tuple[float, int]:
    return found.max_concurrency or 0.0, found.kv_cache_tokens or 0


def _order(record: JsonObject) -> tuple[int, int]:
    return record.get("requestsPerInstance", 0), record.get("kvCacheTokens", 0)


def _filled(record: JsonObject) -> JsonObject:
    return {key: value for key, value in record.items() if value is not None}
