"""Does a live object already say all that we want it to say, and if not, where does it differ?

The API server adds defaults, other managers add fields of their own, and quantities come back in
another spelling. So the question is not "equal?" but "is what we want a part of what is there?".
A reconcile writes only when the answer is no, which is what keeps writes at rest at zero.

Three things are compared whole, because server-side apply replaces them whole: selectors, lists
without a merge key (`args`, `tolerations`), and single values.

Rejected: comparing a hash of what was last applied (blind to somebody else's edit); a dry-run apply
(a request for each child and look).
"""

from collections.abc import Iterable, Mapping
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
    if isinstance(desired, dict):
        if not isinstance(live, dict):
            return here
        if path and path[-1] in _WHOLE and desired.keys() != live.keys():
            return here
        return _first(
            _differs(value, live.get(key), path=(*path, key), quantity=quantity or key in _QUANTITIES)
            for key, value in desired.items()
        )
    if isinstance(desired, list):
        if not isinstance(live, list):
            return here
        return _list_differs(desired, live, path=path)
    return None if _same_value(desired, live, quantity=quantity) else here


def _list_differs(desired: list[Any], live: list[Any], *, path: tuple[str, ...]) -> str | None:
    if _is_merged(path, desired) and _is_merged(path, live):
        others = {_merge_key(path, item): item for item in live}
        keys = [_merge_key(path, item) for item in desired]
        pairs = [
            ("/".join(map(str, key)), item, others.get(key)) for key, item in zip(keys, desired, strict=True)
        ]
    elif len(desired) == len(live):
        pairs = [(str(index), item, live[index]) for index, item in enumerate(desired)]
    else:
        return ".".join(path) or "."
    return _first(_differs(item, other, path=(*path, name), quantity=False) for name, item, other in pairs)


def _is_merged(path: tuple[str, ...], items: list[Any]) -> bool:
    """Whether the API server merges this list item by item; it replaces any other whole."""
    named = bool(path) and (path[-1] in _MERGE_KEYS or path[-1] == _PORTS)
    return named and all(isinstance(item, dict) for item in items)


def _merge_key(path: tuple[str, ...], item: dict[str, Any]) -> tuple[Any, ...]:
    """What the API server knows this item of a list by."""
    if path[-1] == _PORTS:
        return (item.get("containerPort", item.get("port")), item.get("protocol", "TCP"))
    return tuple(item.get(name) for name in _MERGE_KEYS[path[-1]])


def _same_value(desired: Any, live: Any, *, quantity: bool) -> bool:
    if quantity and (amount := parse_quantity(desired)) is not None:
        return amount == parse_quantity(live)
    return desired == live and isinstance(desired, bool) == isinstance(live, bool)


def _is_zero(value: Any) -> bool:
    """Whether the API server may leave the value out when it writes the object (Go's `omitempty`)."""
    return value is None or value is False or value in ("", [], {})


def _first(differences: Iterable[str | None]) -> str | None:
    return next((difference for difference in differences if difference is not None), None)
