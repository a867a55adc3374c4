"""What the operator watches. Every handler has one line: it hands the event on as a trigger.

Of kopf we use the watching half only. `on.create`, daemons and timers write progress annotations
and finalizers to the user's object (1,000 writes for 1,000 services) and invite decisions from the
event's data; `kopf.index` starts slower than linearly. So: `on.event`, which writes nothing.

Children are selected by label on the server, so that pods which are not ours never reach us.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import kopf
from kubernetes.aio.client import Configuration

from stoker.api.names import GROUP, SERVICE_LABEL
from stoker.controller.triggers import Triggers
from stoker.kube.resources import CHILDREN, INFERENCE_SERVICES, Resource

_REQUEST_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 5.0
_WATCH_S = 600
"""A watch is renewed this often; a whole number, as kopf sends it on as it stands."""
_PAGE = 100
"""Objects per page of the first list: without pages 5,000 pods cost twice the memory."""
_IDLE_S = 0.5
_KILL_AFTER_S = 60.0


def registry(
    triggers: Triggers, *, credentials: Callable[[], Awaitable[Configuration]]
) -> kopf.OperatorRegistry:
    """The handlers, in a registry of their own, so that nothing is global."""
    handlers = kopf.OperatorRegistry()

    @kopf.on.login(registry=handlers)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return _connection(await credentials())

    @kopf.on.event(*_address(INFERENCE_SERVICES), registry=handlers)
    async def service_changed(event: kopf.RawEvent, **_: Any) -> None:
        triggers.service(event["type"], dict(event["object"]))

    for resource in CHILDREN:

        @kopf.on.event(*_address(resource), registry=handlers)
        async def child_changed(event: kopf.RawEvent, **_: Any) -> None:
            triggers.child(dict(event["object"]))

    return handlers


def settings() -> kopf.OperatorSettings:
    """kopf's settings; each line that differs from kopf's default is there for a reason."""
    chosen = kopf.OperatorSettings()
    # A `default` peering object of any other operator would pause ours. The Lease decides.
    chosen.peering.standalone = True
    # The kinds are known and there when kopf starts (`runtime`), and the CRDs and namespaces of
    # other people are many.
    chosen.scanning.disabled = True
    # We post our own, see `kube.recorder`.
    chosen.posting.enabled = False
    chosen.watching.server_timeout = _WATCH_S
    chosen.watching.chunk_size = _PAGE
    # kopf keeps a task and the last event of each object for this long.
    chosen.queueing.idle_timeout = _IDLE_S
    for resource in CHILDREN:
        chosen.watching.label_selectors[_address(resource)] = SERVICE_LABEL
    chosen.networking.request_timeout = _REQUEST_TIMEOUT_S
    chosen.networking.connect_timeout = _CONNECT_TIMEOUT_S
    chosen.process.ultimate_exiting_timeout = _KILL_AFTER_S
    # Never used, as no handler needs a finalizer; but if it were, it would be ours.
    chosen.persistence.finalizer = f"{GROUP}/finalizer"
    chosen.persistence.diffbase_storage = _NothingToCompare()
    return chosen


class _NothingToCompare(kopf.DiffBaseStorage):
    """No handler of ours asks what changed since the last time.

    kopf works that out for every event all the same, by deep copies of the object: with it an event
    of a pod costs 1.6 ms of processor time, without it 1.0 ms.
    """

    def build(
        self, *, body: kopf.Body, extra_fields: Iterable[kopf.FieldSpec] | None = None
    ) -> kopf.BodyEssence:
        return {}

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        raise AssertionError("only handlers that write annotations store anything")


def _address(resource: Resource) -> tuple[str, str, str]:
    return (resource.group, resource.api_version.rpartition("/")[2], resource.plural)


def _connection(configuration: Configuration) -> kopf.ConnectionInfo:
    scheme, _, token = configuration.api_key.get("BearerToken", "").partition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        scheme=scheme.capitalize() or None,
        token=token or None,
    )
