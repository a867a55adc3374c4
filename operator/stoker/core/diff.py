"""Does a live object already say all that we want it to say, and if not, where does it differ?

The API server adds defaults, other managers add fields of their own, and quantities come back in
another spelling. So the question is not "equal?" but "is what we want a part of what is there?".
A reconcile writes only when the answer is no, which is what keeps writes at rest at zero.

Three things are compared whole, because server-side apply replaces them whole: selectors, lists
without a merge key (`args`, `tolerations`), and single values.

Rejected: comparing a hash of what was last applied (blind to somebody else's edit); a dry-run apply
(a request for each child and look).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.core.quantity import parse_quantity

_MERGE_KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
    "volumeMounts": ("mountPath",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "ownerReferences": ("uid",),
}
"""Lists that the API server merges item by item (`x-kubernetes-list-map-keys`), and by what."""
_PORTS = "ports"
"""Merged by port and protocol; a container calls its port `containerPort`, a Service `port`."""
_WHOLE = frozenset({"selector", "matchLabels", "nodeSelector"})
"""Maps that the API server replaces whole: one more key changes what is selected."""
_QUANTITIES = frozenset({"limits", "requests", "sizeLimit", "divisor"})


def first_difference(desired: Any, live: Any) -> str | None:
    """Path of the first thing in `desired` that `live` does not say; None when it says all.

    Example: ({"spec": {"replicas": 3}}, {"spec": {"replicas": 1, "paused": False}}) -> `spec.replicas`.
    """
    return _differs(desired, live, path=(), quantity=False)


def _differs(desired: Any, live: Any, *, path: tuple[str, ...], quantity: bool) -> str | None:
    here = ".".join(path) or "."
    if live is None and _is_zero(desired):
        return None
    if isinstance(desired, Mapping):
        if not isinstance(live, Mapping):
            return here
        if path and path[-1] in _WHOLE and desired.keys() != live.keys():
            return here
        return _first(
            _differs(value, live.get(key), path=(*path, key), quantity=quantity or key in _QUANTITIES)
            for key, value in desired.items()
        )
    if isinstance(desired, Sequence) and not isinstance(desired, str):
        if not isinstance(live, Sequence) or isinstance(live, str):
            return here
        return _list_differs(desired, live, path=path)
    return None if _same_value(desired, live, quantity=quantity) else here


def _list_differs(desired: Sequence[Any], live: Sequence[Any], *, path: tuple[str, ...]) -> str | None:
    keyed = [(_merge_key(path, item), item) for item in desired]
    if any(key is None for key, _ in keyed):
        if len(desired) != len(live):
            return ".".join(path)
        pairs = [
            (str(index), item, other) for index, (item, other) in enumerate(zip(desired, live, strict=True))
        ]
    else:
        others = {_merge_key(path, item): item for item in live}
        pairs = [("/".join(map(str, key or ())), item, others.get(key)) for key, item in keyed]
    return _first(_differs(item, other, path=(*path, name), quantity=False) for name, item, other in pairs)


def _merge_key(path: tuple[str, ...], item: Any) -> tuple[Any, ...] | None:
    """What the API server knows this item of a list by; None when the list is replaced whole."""
    if not path or not isinstance(item, Mapping):
        return None
    if path[-1] == _PORTS:
        return (item.get("containerPort", item.get("port")), item.get("protocol", "TCP"))
    names = _MERGE_KEYS.get(path[-1])
    return tuple(item.get(name) for name in names) if names else None


def _same_value(desired: Any, live: Any, *, quantity: bool) -> bool:
    if quantity and (amount := parse_quantity(desired)) is not None:
        return amount == parse_quantity(live)
    return desired == live and isinstance(desired, bool) == isinstance(live, bool)


def _is_zero(value: Any) -> bool:
    """Whether the API server may leave the value out when it writes the object (Go's `omitempty`)."""
    return value is None or value is False or value in ("", [], {})


def _first(differences: Any) -> str | None:
    return next((difference for difference in differences if difference is not None), None)
