"""What has the cluster told so far, and what does it mean for each service?

Takes objects one by one, in any order, and gives the whole picture when asked. What belongs together
is found by name: the Service of an `InferenceService` has its child name, and its EndpointSlices say
whose they are by label. Only services about which something was told are worked out anew, as a picture
of a thousand is asked for whenever one instance becomes Ready.
"""

import logging
from collections import defaultdict
from datetime import datetime
from typing import NamedTuple

from stoker.api import names
from stoker.core.model import JsonObject
from stoker.gateway.service_states import SERVICE_NAME_LABEL, service_state
from stoker.gateway.table import ServiceState
from stoker.kube.watch import ObjectKey

_log = logging.getLogger(__name__)


class _Child(NamedTuple):
    """The Service of an `InferenceService`, whether it is there or not."""

    namespace: str
    name: str


class Picture:
    """The services and their EndpointSlices."""

    def __init__(self, *, first_byte_timeout_s: float) -> None:
        self._first_byte_timeout_s = first_byte_timeout_s
        self._services: dict[ObjectKey, JsonObject] = {}
        self._slices: defaultdict[_Child, dict[ObjectKey, JsonObject]] = defaultdict(dict)
        self._child_of_slice: dict[ObjectKey, _Child] = {}
        self._states: dict[ObjectKey, ServiceState] = {}
        self._stale: set[ObjectKey] = set()
        """Services to be worked out anew."""
        self._service_of: dict[_Child, ObjectKey] = {}

    def service(self, key: ObjectKey, obj: JsonObject | None) -> None:
        """An `InferenceService` came, changed, or is gone."""
        child = _Child(key.namespace, names.child_name(key.name))
        self._stale.add(key)
        if obj is None:
            self._services.pop(key, None)
            self._service_of.pop(child, None)
        else:
            self._services[key] = obj
            self._service_of[child] = key

    def slice(self, key: ObjectKey, obj: JsonObject | None) -> None:
        """An EndpointSlice came, changed, or is gone."""
        before = self._child_of_slice.pop(key, None)
        if before is not None:
            self._slices[before].pop(key, None)
            if not self._slices[before]:
                del self._slices[before]
            self._is_stale(before)
        if obj is not None and (name := obj["metadata"].get("labels", {}).get(SERVICE_NAME_LABEL)):
            child = _Child(key.namespace, name)
            self._child_of_slice[key] = child
            self._slices[child][key] = obj
            self._is_stale(child)

    def states(self, *, ready_since_s: float, now: datetime, now_s: float) -> list[ServiceState]:
        """All services as they are now; the arguments are those of `service_state`."""
        for key in self._stale:
            obj = self._services.get(key)
            if obj is None:
                self._states.pop(key, None)
                continue
            child = _Child(key.namespace, names.child_name(key.name))
            try:
                self._states[key] = service_state(
                    obj,
                    self._slices[child].values() if child in self._slices else (),
                    first_byte_timeout_s=self._first_byte_timeout_s,
                    ready_since_s=ready_since_s,
                    now=now,
                    now_s=now_s,
                )
            except (LookupError, TypeError, AttributeError, ValueError) as error:
                # One object that makes no sense leaves its own service as it was, and no other.
                about = {"service": f"{key.namespace}/{key.name}", "error": repr(error)}
                _log.error("an object of the cluster makes no sense", extra=about)
        self._stale.clear()
        return list(self._states.values())

    def _is_stale(self, child: _Child) -> None:
        service = self._service_of.get(child)
        if service is not None:
            self._stale.add(service)
