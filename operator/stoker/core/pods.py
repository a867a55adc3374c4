"""What does a pod object say about an instance? Readings of one pod, without a judgement."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from stoker.api import names
from stoker.api.reasons import TerminationClass
from stoker.core.conditions import TRUE, find
from stoker.core.model import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedWeights:
    """What the init container left behind, in its own words."""

    digest: str
    model_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Termination:
    """A class and a sentence that a container wrote when it ended."""

    reason: TerminationClass
    message: str
    fix: str


def name_of(pod: JsonObject) -> str:
    """The pod's name."""
    return str(pod["metadata"]["name"])


def revision_of(pod: JsonObject) -> str | None:
    """Name of the revision that the pod belongs to; None when somebody took its label away."""
    label: str | None = pod["metadata"].get("labels", {}).get(names.REVISION_LABEL)
    return label


def is_leaving(pod: JsonObject) -> bool:
    """Whether the pod is being deleted; its instance drains."""
    return "deletionTimestamp" in pod["metadata"]


def is_over(pod: JsonObject) -> bool:
    """Whether the pod has ended for good, as an evicted one has; its ReplicaSet makes another."""
    return pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


def is_ready(pod: JsonObject) -> bool:
    """Whether the instance gets requests: Ready, and not on its way out."""
    condition = find(pod.get("status", {}).get("conditions", []), "Ready")
    return condition is not None and condition["status"] == TRUE and not is_leaving(pod) and not is_over(pod)


def container_statuses(pod: JsonObject) -> Iterator[JsonObject]:
    """What the kubelet says of each container, init containers first."""
    status = pod.get("status", {})
    yield from status.get("initContainerStatuses", [])
    yield from status.get("containerStatuses", [])


def is_running(pod: JsonObject, container: str) -> bool:
    """Whether a container of the pod runs now."""
    return any(
        status["name"] == container and "running" in status.get("state", {})
        for status in container_statuses(pod)
    )


def fetched_weights(pod: JsonObject) -> FetchedWeights | None:
    """What the pod's init container fetched; None before it is done."""
    for status in pod.get("status", {}).get("initContainerStatuses", []):
        ended = status.get("state", {}).get("terminated", {})
        if status["name"] != names.WEIGHTS_CONTAINER or ended.get("exitCode") != 0:
            continue
        words = _json_object(ended.get("message"))
        if words.get("digest"):
            return FetchedWeights(
                digest=str(words["digest"]), model_version=str(words.get("modelVersion") or "")
            )
    return None


def termination(ended: JsonObject) -> Termination | None:
    """What a container wrote when it ended; None if it wrote nothing that we know."""
    words = _json_object(ended.get("message"))
    reason = next((known for known in TerminationClass if known == words.get("reason")), None)
    if reason is None:
        return None
    return Termination(
        reason=reason,
        message=str(words.get("message") or reason.meaning),
        fix=str(words.get("fix") or reason.what_to_do),
    )


def _json_object(text: object) -> JsonObject:
    """The object that a termination message is; empty when it is only text, or cut off."""
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
