"""Which service a watch event is about, and whether it is worth a look.

A service is worth one when its generation, annotations, labels or deletion mark changed. Its status
is ours: if our own status writes counted, every write would cause the next look, for ever.

A child is always worth one, a moment later. It carries the child name of its service as a label, which is not
always the service's own name (`api.names.child_name` shortens), so the names seen are kept. A child
whose service has not been seen yet needs no look: the service's own event is still to come.
"""

import json
from collections.abc import Iterable
from typing import Any

from stoker.api.names import SERVICE_LABEL, child_name
from stoker.controller.metrics import WATCH_EVENTS
from stoker.controller.queue import Key, WorkQueue
from stoker.core.model import JsonObject

_SETTLE_S = 0.1
"""A change of a Deployment comes as a handful of events, of its own and of its pods: one look at all."""


class Triggers:
    """Turns watch events into keys of the queue, and remembers what the watch has shown."""

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._seen: dict[Key, tuple[Any, ...]] = {}
        """What mattered of each service when the watch last showed it."""
        self._keys: dict[tuple[str, str], Key] = {}
        """By namespace and child name."""

    def service(self, event_type: str | None, service: JsonObject) -> None:
        """A service was listed (`None`), added, modified or deleted."""
        WATCH_EVENTS.labels(service["kind"]).inc()
        metadata = service["metadata"]
        key = Key(metadata["namespace"], metadata["name"])
        address = (key.namespace, child_name(key.name))
        if event_type == "DELETED":
            self._seen.pop(key, None)
            self._keys.pop(address, None)
            self._queue.add(key)
            return
        self._keys[address] = key
        matters = _what_matters(metadata)
        if self._seen.get(key) != matters:
            self._seen[key] = matters
            self._queue.add(key)

    def child(self, child: JsonObject) -> None:
        """A child of some service was listed, added, modified or deleted."""
        WATCH_EVENTS.labels(child["kind"]).inc()
        metadata = child["metadata"]
        address = (metadata["namespace"], metadata.get("labels", {}).get(SERVICE_LABEL, ""))
        if key := self._keys.get(address):
            self._queue.add_after(key, _SETTLE_S)

    def unseen(self, services: Iterable[JsonObject]) -> frozenset[tuple[str, int]]:
        """Uid and generation of those listed services that the watch has not shown like this yet."""
        seen = {(matters[0], matters[1]) for matters in self._seen.values()}
        listed = {(service["metadata"]["uid"], service["metadata"]["generation"]) for service in services}
        return frozenset(listed - seen)


def _what_matters(metadata: JsonObject) -> tuple[Any, ...]:
    return (
        metadata["uid"],
        metadata["generation"],
        "deletionTimestamp" in metadata,
        json.dumps([metadata.get("labels"), metadata.get("annotations")], sort_keys=True),
    )
