"""What did engines measure where we had estimated, for whoever comes next with the same inputs?

One ConfigMap in the operator's namespace holds a ratio for each combination of model, accelerators and
arguments that has started anywhere. Engines measure the same to within some blocks each time, so a
ratio that hardly differs is not written again; what was measured longest ago goes when there are too many.

Rejected: a field of the service's status alone (the next service with the same model would start from
nothing); a mean over all models (what is wrong for one architecture is right for another).
"""

from collections.abc import Mapping
from datetime import datetime

from stoker.api import names
from stoker.core.conditions import timestamp
from stoker.core.model import Correction, JsonObject

_MOST = 1000
"""Ratios that are kept; 40 bytes each."""
_SAME = 0.01
"""Difference of two ratios that is not worth a write."""


def corrections_map(*, namespace: str, data: Mapping[str, str]) -> JsonObject:
    """The ConfigMap; its labels are whose it was made by, usually the chart's."""
    metadata = {"name": names.CORRECTIONS_NAME, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def ratios(data: Mapping[str, str]) -> dict[str, float]:
    """The ratios in the data of the ConfigMap, by the key of their `Correction`.

    What somebody else wrote there, and what no engine can have measured, is left out.
    """
    found = {}
    for key, text in data.items():
        try:
            ratio = float(text.split(" ")[0])
        except ValueError:
            continue
        if 0 < ratio < 100:
            found[key] = ratio
    return found


def with_correction(data: Mapping[str, str], correction: Correction, *, now: datetime) -> dict[str, str]:
    """The data with one more correction; the same if it says nothing new.

    Example: {} and a ratio of .97 for `5f3a9c01` -> {`5f3a9c01`: `0.97 2026-12-01T08:00:00Z`}.
    """
    known = ratios(data).get(correction.key)
    if known is not None and abs(known - correction.ratio) < _SAME:
        return dict(data)
    more = dict(data) | {correction.key: f"{correction.ratio:g} {timestamp(now)}"}
    newest_first = sorted(more.items(), key=lambda item: item[1].partition(" ")[2], reverse=True)
    return dict(newest_first[:_MOST])
