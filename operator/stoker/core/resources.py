"""Which objects belong to a service, and which of them must be written?

One Deployment for each revision that has instances, and once each a Service, a PodDisruptionBudget, a
ServiceAccount and a ConfigMap with what is known of its models. All carry the service as their owner, so
deleting it needs no finalizer.

A revision's pod template is fixed when it is first applied, and kept as JSON in an annotation of its
Deployment. From then on that copy is what we want: an edit by hand is put back to it, and a new
release of the operator, with other images or other probes, restarts no pod. New pods come with a
new revision only.

Rejected: building the template anew for each look (an upgrade of the operator would roll the whole
fleet); keeping only the live images (any other change of the builder would still roll it).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from stoker.api import names
from stoker.core.config import Config
from stoker.core.diff import first_difference
from stoker.core.model import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Why a child must be written."""

    reason: str
    drift: bool
    """Whether somebody else changed it: what we last applied is still what we want."""


class Ownership(Enum):
    """Whose an object is."""

    OURS = "ours"
    FORMER_SERVICE = "of a deleted service of the same name; the garbage collector is about to take it"
    SOMEBODY_ELSE = "somebody else's"


def deployment(
    service: JsonObject, *, revision: str, template: JsonObject, replicas: int, config: Config
) -> JsonObject:
    """A revision's Deployment. An instance leaves only when another one is Ready in its place.

    No old ReplicaSets are kept: going back is a matter of revisions, not of Deployments.
    """
    desired = _child(service, "apps/v1", "Deployment", name=revision, component="instances")
    desired["metadata"]["labels"][names.REVISION_LABEL] = revision
    desired["metadata"]["annotations"] = {
        names.TEMPLATE_ANNOTATION: json.dumps(template, sort_keys=True, separators=(",", ":"))
    }
    desired["spec"] = {
        "replicas": replicas,
        "revisionHistoryLimit": 0,
        "progressDeadlineSeconds": int(config.progress_deadline_s),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "selector": {"matchLabels": revision_selector(service, revision)},
        "template": template,
    }
    return _hashed(desired)


def cluster_service(service: JsonObject, *, serving: str) -> JsonObject:
    """The Service that clients inside the cluster talk to. Its selector names the serving revision."""
    desired = _child(service, "v1", "Service", name=_child_name(service), component="endpoint")
    desired["spec"] = {
        "type": "ClusterIP",
        "selector": revision_selector(service, serving),
        "ports": [
            {
                "name": "http",
                "port": names.SERVICE_PORT,
                "targetPort": names.HTTP_PORT,
                "protocol": "TCP",
                "appProtocol": "http",
            }
        ],
    }
    return _hashed(desired)


def disruption_budget(service: JsonObject, *, serving: str) -> JsonObject:
    """How many serving instances a node drain may take at once: one.

    For a single replica that means the drain may take it. The alternative, `minAvailable: 1`, would
    block the drain for ever, as nothing starts a second instance for its sake; who wants no gap
    asks for two replicas. Instances of a candidate are not counted: while they start they would use
    up the budget of those that serve. An instance that is not Ready may always be evicted.
    """
    desired = _child(
        service, "policy/v1", "PodDisruptionBudget", name=_child_name(service), component="endpoint"
    )
    desired["spec"] = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": revision_selector(service, serving)},
    }
    return _hashed(desired)


def service_account(service: JsonObject) -> JsonObject:
    """The identity of the instances, without a token: they never talk to the API server."""
    desired = _child(service, "v1", "ServiceAccount", name=_child_name(service), component="instances")
    desired["automountServiceAccountToken"] = False
    return _hashed(desired)


def model_files(service: JsonObject, *, data: Mapping[str, str]) -> JsonObject:
    """What is known of the service's models, by revision."""
    name = names.model_files_name(service["metadata"]["name"])
    desired = _child(service, "v1", "ConfigMap", name=name, component="model-files")
    desired["data"] = dict(data)
    return _hashed(desired)


def kept_template(live: JsonObject) -> JsonObject | None:
    """The pod template that a live Deployment was made with; None if the annotation does not say.

    It must be one that the Deployment can have: the API server takes none that its selector misses.
    """
    text = live["metadata"].get("annotations", {}).get(names.TEMPLATE_ANNOTATION, "")
    try:
        template = json.loads(text)
        labels = template["metadata"]["labels"].items()
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return template if live["spec"]["selector"]["matchLabels"].items() <= labels else None


def revision_selector(service: JsonObject, revision: str) -> dict[str, str]:
    """Labels that pick the pods of one revision of one service."""
    return {names.SERVICE_LABEL: _child_name(service), names.REVISION_LABEL: revision}


def ownership(live: JsonObject, *, service: JsonObject) -> Ownership:
    """Whose an object is that bears the name of a child.

    One without an owner that carries our labels was orphaned on purpose, or somebody took its owner
    reference away: it is taken back, so that what serves goes on serving.
    """
    metadata, owner = live["metadata"], service["metadata"]
    controllers = [ref for ref in metadata.get("ownerReferences", []) if ref.get("controller")]
    if any(ref["uid"] == owner["uid"] for ref in controllers):
        return Ownership.OURS
    if any(ref["kind"] == names.KIND and ref["name"] == owner["name"] for ref in controllers):
        return Ownership.FORMER_SERVICE
    labels = metadata.get("labels", {})
    marks = names.child_labels(owner["name"], component=labels.get("app.kubernetes.io/component", ""))
    is_marked = marks.items() <= labels.items()
    return Ownership.OURS if is_marked and not controllers else Ownership.SOMEBODY_ELSE


def is_leaving(live: JsonObject) -> bool:
    """Whether an object is being deleted."""
    return "deletionTimestamp" in live["metadata"]


def named(name: str, objects: Sequence[JsonObject]) -> JsonObject | None:
    """The object of that name."""
    return next((item for item in objects if item["metadata"]["name"] == name), None)


def needed_change(desired: JsonObject, live: JsonObject | None) -> Change | None:
    """Why `desired` must be applied over `live`; None when `live` says it all already."""
    if live is None:
        return Change(reason="it is not there", drift=False)
    applied = live["metadata"].get("annotations", {}).get(names.SPEC_HASH_ANNOTATION)
    is_applied = applied == desired["metadata"]["annotations"][names.SPEC_HASH_ANNOTATION]
    difference = first_difference(_without_hash(desired), live)
    if difference is None:
        return None if is_applied else Change(reason="it says more than it should", drift=False)
    if is_applied:
        return Change(reason=f"somebody else changed `{difference}`", drift=True)
    return Change(reason=f"`{difference}` is to change", drift=False)


def _child(service: JsonObject, api_version: str, kind: str, *, name: str, component: str) -> JsonObject:
    metadata = service["metadata"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": names.child_labels(metadata["name"], component=component),
            "ownerReferences": [
                {
                    "apiVersion": names.API_VERSION,
                    "kind": names.KIND,
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
    }


def _hashed(desired: JsonObject) -> JsonObject:
    """The object with a hash of itself, so that what we no longer want to say is noticed too."""
    text = json.dumps(desired, sort_keys=True)
    desired["metadata"].setdefault("annotations", {})[names.SPEC_HASH_ANNOTATION] = names.short_hash(text)
    return desired


def _without_hash(desired: JsonObject) -> JsonObject:
    metadata = desired["metadata"]
    rest = {key: value for key, value in metadata["annotations"].items() if key != names.SPEC_HASH_ANNOTATION}
    return {**desired, "metadata": {**metadata, "annotations": rest}}


def _child_name(service: JsonObject) -> str:
    return names.child_name(service["metadata"]["name"])
