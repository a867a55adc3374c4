"""Events on a service, for `kubectl describe` and for alerts: few, and never in the way.

`core` emits an Event on a transition only. This is the second line of defence: the same Event for
the same object is posted once in ten minutes, and an object that flaps gets 25 at once and then one
in five minutes, as client-go has it. An Event that cannot be posted is logged and forgotten: it
must never make a reconcile fail.

events.k8s.io/v1 rather than the core group's older shape: it says who reports and has a time of
microseconds; `kubectl describe` shows both alike.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from prometheus_client import Counter

from stoker.api.names import GROUP
from stoker.core.model import Event, JsonObject
from stoker.kube.errors import KubeError
from stoker.kube.resources import EVENTS

POSTED = Counter("stoker_events_total", "Kubernetes Events by what became of them.", ["result"])

_REPEAT_AFTER_S = 600.0
_BURST = 25
_REFILL_S = 300.0
_TIMEOUT_S = 5.0
_NOTE_LIMIT = 1024
"""What events.k8s.io/v1 allows, in bytes."""

_log = logging.getLogger(__name__)


class EventStore(Protocol):
    """The part of `kube.client.Client` that Events need."""

    async def create(self, obj: JsonObject) -> JsonObject: ...


@dataclass(slots=True)
class _History:
    """What was posted lately about one object."""

    tokens: float
    counted_at_s: float
    posted_at_s: dict[Event, float] = field(default_factory=dict)


class Recorder:
    """Posts the Events of a plan."""

    def __init__(self, store: EventStore, *, instance: str, clock: Callable[[], float]) -> None:
        self._store = store
        self._instance = instance
        self._clock = clock
        self._histories: dict[str, _History] = {}
        """By uid of the object."""

    async def record(self, service: JsonObject, events: tuple[Event, ...]) -> None:
        """Post what is new; returns when the API server has it or would not take it."""
        for event in events:
            if not self._may_post(service["metadata"]["uid"], event):
                POSTED.labels("held_back").inc()
                continue
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    await self._store.create(self._manifest(service, event))
                POSTED.labels("posted").inc()
            except (KubeError, TimeoutError) as error:
                POSTED.labels("failed").inc()
                _log.warning("an Event was not posted", extra={"error": str(error) or "timeout"})

    def forget(self, live_uids: set[str]) -> None:
        """Drop what is remembered about objects that no longer exist."""
        self._histories = {uid: h for uid, h in self._histories.items() if uid in live_uids}

    def _may_post(self, uid: str, event: Event) -> bool:
        now_s = self._clock()
        history = self._histories.setdefault(uid, _History(_BURST, now_s))
        history.tokens = min(_BURST, history.tokens + (now_s - history.counted_at_s) / _REFILL_S)
        history.counted_at_s = now_s
        history.posted_at_s = {
            old: at_s for old, at_s in history.posted_at_s.items() if now_s - at_s < _REPEAT_AFTER_S
        }
        if event in history.posted_at_s or history.tokens < 1:
            return False
        history.tokens -= 1
        history.posted_at_s[event] = now_s
        return True

    def _manifest(self, service: JsonObject, event: Event) -> JsonObject:
        metadata = service["metadata"]
        regarding = {key: service[key] for key in ("apiVersion", "kind")} | {
            key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion")
        }
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"namespace": metadata["namespace"], "generateName": f"{metadata['name']}-"},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": event.type,
            "reason": event.reason,
            "action": "Reconcile",
            "note": event.message.encode()[:_NOTE_LIMIT].decode(errors="ignore"),
            "regarding": regarding,
            "reportingController": f"{GROUP}/operator",
            "reportingInstance": self._instance,
        }
