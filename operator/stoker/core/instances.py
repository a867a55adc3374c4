"""What does each instance do, and what does it serve?

An instance is a pod of a revision. Kubernetes knows whether it is scheduled, Ready or leaving, and
has the last word on those; the instance itself knows what it is busy with while it starts, and which
weights it has.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from stoker.api import names
from stoker.api.status import InstanceState
from stoker.core import pods as pod_readings
from stoker.core.conditions import TRUE, find, timestamp
from stoker.core.diagnose import Diagnosis
from stoker.core.model import InstanceReport, JsonObject

_OWN_WORDS = frozenset(
    {InstanceState.WEIGHTS, InstanceState.STARTING, InstanceState.LOADING, InstanceState.WARMING_UP}
)
"""Stages of a start that an instance names itself."""
_LONGEST_WORD = 256
"""Characters of a version or digest that the status takes; an image may say anything of itself."""
_NOT_STARTING = frozenset({InstanceState.SERVING, InstanceState.DRAINING, InstanceState.FAILED})


def instance_records(
    *,
    pods: Iterable[JsonObject],
    reports: Mapping[str, InstanceReport],
    diagnosis: Diagnosis,
    before: Iterable[JsonObject],
    now: datetime,
) -> list[JsonObject]:
    """The new `status.instances`, by name. `before` is the live list, for the times."""
    old = {record["name"]: record for record in before}
    records = []
    for pod in sorted(pods, key=pod_readings.name_of):
        name, revision = pod_readings.name_of(pod), pod_readings.revision_of(pod)
        if revision is None:
            continue
        state = instance_state(pod, report=reports.get(name), diagnosis=diagnosis)
        was = old.get(name, {})
        record = {"name": name, "revision": revision, "state": state.value}
        record["since"] = was["since"] if was.get("state") == state and "since" in was else timestamp(now)
        if node := pod.get("spec", {}).get("nodeName"):
            record["node"] = node
        if version := weights_fields(pod, reports.get(name)).get("modelRevision"):
            record["modelVersion"] = version
        if problem := diagnosis.of_pod(name):
            record["message"] = problem.sentence
        records.append(record)
    return records


def instance_state(pod: JsonObject, *, report: InstanceReport | None, diagnosis: Diagnosis) -> InstanceState:
    """What an instance does: as Kubernetes sees it where it must be true, else in its own words."""
    if pod_readings.is_leaving(pod):
        return InstanceState.DRAINING
    if pod_readings.is_ready(pod):
        return InstanceState.SERVING
    scheduled = find(pod.get("status", {}).get("conditions", []), "PodScheduled")
    if not pod_readings.is_over(pod) and (scheduled is None or scheduled["status"] != TRUE):
        return InstanceState.SCHEDULING
    if pod_readings.is_over(pod) or diagnosis.of_pod(pod_readings.name_of(pod)):
        return InstanceState.FAILED
    if report and report.stage in _OWN_WORDS:
        return InstanceState(report.stage)
    if pod_readings.is_running(pod, names.ENGINE_CONTAINER):
        return InstanceState.STARTING
    if pod_readings.is_running(pod, names.WEIGHTS_CONTAINER):
        return InstanceState.WEIGHTS
    return InstanceState.PULLING_IMAGE


def starting_summary(instances: Iterable[JsonObject]) -> str:
    """What those that do not serve yet are doing, for a message: `1 Loading, 2 Weights`."""
    counts = Counter(record["state"] for record in instances if record["state"] not in _NOT_STARTING)
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))


def weights_fields(pod: JsonObject, report: InstanceReport | None) -> JsonObject:
    """What an instance serves, as it states it itself, else as its init container left it."""
    fetched = pod_readings.fetched_weights(pod)
    version = (report.model_version if report else "") or (fetched.model_version if fetched else "")
    digest = (report.weights_digest if report else "") or (fetched.digest if fetched else "")
    fields = {"modelRevision": version, "weightsDigest": digest}
    return {key: value[:_LONGEST_WORD] for key, value in fields.items() if value}


def weights_by_revision(
    pods: Sequence[JsonObject], reports: Mapping[str, InstanceReport]
) -> dict[str, JsonObject]:
    """What the instances of each revision serve; Ready ones are heard last and so have the word."""
    said: dict[str, JsonObject] = {}
    for pod in sorted(pods, key=lambda pod: (pod_readings.is_ready(pod), pod_readings.name_of(pod))):
        if revision := pod_readings.revision_of(pod):
            fields = weights_fields(pod, reports.get(pod_readings.name_of(pod)))
            said[revision] = said.get(revision, {}) | fields
    return said
