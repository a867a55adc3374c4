"""Which objects of a kind are there now?

A list, then the changes since it. A watch that ends by its own time goes on from its last version,
which misses nothing. One that ends in any other way (a lost connection, a version too old, an event
that says nothing sensible) starts over with a list, and a list replaces everything. So a deletion
whose event was lost is noticed at the next list, and nothing can drift for longer.

While the API server is away the last picture stays: what served a minute ago most likely still does.

Rejected: kopf's watches (a task and a copy for each object; for the operator's needs); the informer
of the official client (typed objects, and its import); lists from the server's cache
(`resourceVersion=0`), which may be older than what was already seen.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from stoker.core.model import JsonObject
from stoker.kube.client import Client
from stoker.kube.errors import InvalidError, KubeError, RetryError
from stoker.kube.resources import Resource

_WATCH_S = 60
"""How long one watch lasts: so long at most can a connection be dead without a sign of it."""
_LEAST_S = 0.5
"""A watch that ends sooner has not been one: to ask again at once would be a loop without a pause."""
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_SETTLED_S = 10.0
"""A watch that held so long was no failure: the next pause is short again."""

_log = logging.getLogger(__name__)


class ObjectKey(NamedTuple):
    """Which object of its kind."""

    namespace: str
    name: str


class Collection:
    """All objects of a kind in a namespace, or in all, as they are now."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        namespace: str | None,
        label_selector: str | None,
        on_change: Callable[[Mapping[ObjectKey, JsonObject | None]], None],
        spread: Callable[[], float],
    ) -> None:
        """`on_change` is told what came or changed, and with None what went; of a list that
        changes nothing too. `spread` draws from [0, 1).
        """
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._label_selector = label_selector
        self._on_change = on_change
        self._spread = spread
        self.objects: dict[ObjectKey, JsonObject] = {}
        self.synced = False
        """Whether there was a list at all."""
        self.refused = False
        """Whether the server does not let us list, so that waiting alone does not help."""
        self.trouble = ""
        """What keeps the picture from being of now, in a sentence; empty if nothing does."""

    async def follow(self) -> None:
        """Keep `objects` as they are; runs until it is cancelled."""
        pause_s = _FIRST_PAUSE_S
        while True:
            began_s = time.monotonic()
            try:
                await self._list_and_watch()
            except KubeError as error:
                self.trouble = str(error)
                self.refused = isinstance(error, InvalidError)
                self._on_change({})
                if time.monotonic() - began_s >= _SETTLED_S:
                    pause_s = _FIRST_PAUSE_S
                least_s = (error.retry_after_s if isinstance(error, RetryError) else None) or 0.0
                wait_s = max(min(least_s, _LONGEST_PAUSE_S), pause_s * (1 + self._spread()))
                _log.warning("the watch starts over", extra={"error": str(error), "in_s": round(wait_s, 1)})
                await asyncio.sleep(wait_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _list_and_watch(self) -> None:
        """Returns never; raises when it must start over."""
        listed = await self._client.list_version(
            self._resource, namespace=self._namespace, label_selector=self._label_selector
        )
        self._replace(listed.items)
        version = listed.resource_version
        while True:
            began_s = time.monotonic()
            async for event in self._client.watch(
                self._resource,
                namespace=self._namespace,
                label_selector=self._label_selector,
                since=version,
                lasting_s=_WATCH_S,
            ):
                version = self._take(event)
            if time.monotonic() - began_s < _LEAST_S:
                raise RetryError(f"watching {self._resource.plural}", "the watch ended as soon as it began")

    def _replace(self, items: list[JsonObject]) -> None:
        before, self.objects = self.objects, {_key(item): _lean(item) for item in items}
        self.synced = True
        self.refused = False
        self.trouble = ""
        changed: dict[ObjectKey, JsonObject | None] = dict.fromkeys(before.keys() - self.objects.keys())
        for key, obj in self.objects.items():
            if key not in before or _version(before[key]) != _version(obj):
                changed[key] = obj
        self._on_change(changed)

    def _take(self, event: JsonObject) -> str:
        """Take note of one event; returns the version that it leads to."""
        kind, obj = event["type"], event["object"]
        try:
            version = _version(obj)
            key = None if kind == "BOOKMARK" else _key(obj)
        except KeyError as error:
            because = f"an event of type {kind} lacks {error}"
            raise RetryError(f"watching {self._resource.plural}", because) from error
        if key is not None and kind == "DELETED":
            self.objects.pop(key, None)
            self._on_change({key: None})
        elif key is not None:
            self.objects[key] = _lean(obj)
            self._on_change({key: obj})
        return version


def _key(obj: JsonObject) -> ObjectKey:
    return ObjectKey(obj["metadata"]["namespace"], obj["metadata"]["name"])


def _version(obj: JsonObject) -> str:
    version: str = obj["metadata"]["resourceVersion"]
    return version


def _lean(obj: JsonObject) -> JsonObject:
    """Without the record of who set which field, which is half of an object and of no use here."""
    obj["metadata"].pop("managedFields", None)
    return obj
