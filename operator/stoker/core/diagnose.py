"""What is wrong with a service's instances, and what can a person do about it?

All pods are looked at, and all their containers: with the first one only, an out-of-memory kill on
one pod would hide a refused password on another. Each problem has a class, the pod's name, the
cause in the words of whoever saw it, and what to change. One verdict stands for them all.

A container says itself why it ended, in its termination message. Where it could not, as it was
killed or never ran, the kubelet's and the scheduler's words are taken.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker.api import names
from stoker.api.reasons import Explained, Reason, TerminationClass, Verdict
from stoker.core import pods as pod_readings
from stoker.core.conditions import FALSE, TRUE, find
from stoker.core.model import JsonObject

_NAMED_PODS = 5
"""Problems spelled out in one message; a fleet that fails, fails alike."""
_LAST_WORDS = 240
"""Characters of a log line that are quoted."""
_SENTENCE = 2000
"""Characters of a problem that are told; a registry may answer with a whole page."""

_IMAGE_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)
_NOT_CREATED_REASONS = frozenset({"CreateContainerError", "RunContainerError", "StartError"})

_VERDICTS: dict[Explained, Verdict] = {
    TerminationClass.WEIGHTS_MISSING: Verdict.WEIGHTS_UNAVAILABLE,
    TerminationClass.WEIGHTS_FORBIDDEN: Verdict.WEIGHTS_UNAVAILABLE,
    TerminationClass.WEIGHTS_CORRUPT: Verdict.WEIGHTS_UNAVAILABLE,
    TerminationClass.WEIGHTS_UNREACHABLE: Verdict.WEIGHTS_UNAVAILABLE,
    TerminationClass.SOURCE_NOT_ALLOWED: Verdict.WEIGHTS_UNAVAILABLE,
    TerminationClass.DISK_FULL: Verdict.WEIGHTS_UNAVAILABLE,
    TerminationClass.ENGINE_STUCK: Verdict.STUCK,
    Verdict.IMAGE_UNAVAILABLE: Verdict.IMAGE_UNAVAILABLE,
    Verdict.WEIGHTS_UNAVAILABLE: Verdict.WEIGHTS_UNAVAILABLE,
    Verdict.WAITING_FOR_NODE: Verdict.WAITING_FOR_NODE,
    Reason.QUOTA_EXCEEDED: Verdict.WAITING_FOR_NODE,
}
"""The verdict for a class; `Crashing` for any other."""
_WORST_FIRST = (
    Verdict.CRASHING,
    Verdict.STUCK,
    Verdict.WEIGHTS_UNAVAILABLE,
    Verdict.IMAGE_UNAVAILABLE,
    Verdict.WAITING_FOR_NODE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What holds up one instance, or all of a revision."""

    subject: str
    """Name of the pod; of the revision when its pods cannot even be made."""
    revision: str
    reason: Explained
    """Class of the problem."""
    cause: str
    fix: str
    node: str | None = None
    """Node that the pod is on, if it is on one."""

    @property
    def verdict(self) -> Verdict:
        """What this is an instance of."""
        return _VERDICTS.get(self.reason, Verdict.CRASHING)

    @property
    def sentence(self) -> str:
        """The problem as one sentence for a person."""
        where = f"{self.subject} on {self.node}" if self.node else self.subject
        cause = self.cause.rstrip(".")[: _SENTENCE // 2]
        return f"{where}: {self.reason.value}: {cause}. {self.fix[: _SENTENCE // 2]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Everything that is wrong, worst first."""

    problems: tuple[Problem, ...]

    @property
    def verdict(self) -> Verdict | None:
        """The worst verdict; None when nothing is wrong."""
        return self.problems[0].verdict if self.problems else None

    @property
    def short_of_nodes(self) -> tuple[Problem, ...]:
        """Instances that wait for a node or a quota, and are not at fault themselves."""
        return tuple(p for p in self.problems if p.verdict is Verdict.WAITING_FOR_NODE)

    @property
    def unhealthy(self) -> tuple[Problem, ...]:
        """Instances that fail for another reason."""
        return tuple(p for p in self.problems if p.verdict is not Verdict.WAITING_FOR_NODE)

    def of_revision(self, revision: str) -> "Diagnosis":
        """What is wrong with one revision."""
        return Diagnosis(problems=tuple(p for p in self.problems if p.revision == revision))

    def of_pod(self, name: str) -> Problem | None:
        """What is wrong with one pod."""
        return next((p for p in self.problems if p.subject == name), None)


def diagnose(*, pods: Iterable[JsonObject], deployments: Iterable[JsonObject]) -> Diagnosis:
    """The problems of all pods, and those that keep pods from being made."""
    found = [problem for pod in pods if (problem := _pod_problem(pod))]
    found += [problem for deployment in deployments if (problem := _deployment_problem(deployment))]
    return Diagnosis(problems=tuple(sorted(found, key=lambda p: (_WORST_FIRST.index(p.verdict), p.subject))))


def sentences(problems: Sequence[Problem]) -> str:
    """The problems for the message of a condition."""
    more = len(problems) - _NAMED_PODS
    told = " ".join(problem.sentence for problem in problems[:_NAMED_PODS])
    return f"{told} And {more} more like these." if more > 0 else told


def _pod_problem(pod: JsonObject) -> Problem | None:
    revision = pod_readings.revision_of(pod)
    if revision is None or pod_readings.is_leaving(pod) or pod_readings.is_ready(pod):
        return None
    found = _eviction(pod) or _unscheduled(pod)
    for status in pod_readings.container_statuses(pod):
        found = found or _container_problem(status)
    if found is None:
        return None
    reason, cause, fix = found
    return Problem(
        subject=pod_readings.name_of(pod),
        revision=revision,
        reason=reason,
        cause=cause,
        fix=fix,
        node=pod.get("spec", {}).get("nodeName"),
    )


def _eviction(pod: JsonObject) -> tuple[Explained, str, str] | None:
    status = pod.get("status", {})
    if status.get("reason") != "Evicted":
        return None
    cause = str(status.get("message") or "the node put the instance out")
    return Reason.EVICTED, cause, Reason.EVICTED.what_to_do


def _unscheduled(pod: JsonObject) -> tuple[Explained, str, str] | None:
    scheduled = find(pod.get("status", {}).get("conditions", []), "PodScheduled")
    if scheduled is None or scheduled["status"] != FALSE:
        return None
    cause = str(scheduled.get("message") or "no node fits")
    return Verdict.WAITING_FOR_NODE, cause, Verdict.WAITING_FOR_NODE.what_to_do


def _container_problem(status: JsonObject) -> tuple[Explained, str, str] | None:
    """What is wrong with one container; None when it runs for the first time, or is done."""
    state, name = status.get("state", {}), status["name"]
    waiting = state.get("waiting", {})
    why, words = waiting.get("reason", ""), waiting.get("message") or ""
    if why in _IMAGE_REASONS:
        image = f"container {name} cannot get its image {status.get('image') or ''}".rstrip()
        return Verdict.IMAGE_UNAVAILABLE, _with_words(image, words), Verdict.IMAGE_UNAVAILABLE.what_to_do
    if why == "CreateContainerConfigError":
        cause = _with_words(f"container {name} cannot be made", words)
        return Reason.REFERENCE_MISSING, cause, Reason.REFERENCE_MISSING.what_to_do
    if why in _NOT_CREATED_REASONS:
        cause = _with_words(f"container {name} cannot be started", words)
        return Verdict.CRASHING, cause, Reason.POD_REFUSED.what_to_do
    ended = state.get("terminated") or status.get("lastState", {}).get("terminated")
    if ended is None or status.get("ready") or (ended.get("exitCode") == 0 and why != "CrashLoopBackOff"):
        return None
    return _end(name, ended, restarts=status.get("restartCount", 0))


def _end(container: str, ended: JsonObject, *, restarts: int) -> tuple[Explained, str, str]:
    """Why a container ended: its own words, else the kubelet's, else its last line of log."""
    again = f", {restarts} restarts" if restarts > 1 else ""
    if said := pod_readings.termination(ended):
        return said.reason, f"container {container}{again}: {said.message}", said.fix
    code = ended.get("exitCode")
    if ended.get("reason") == "OOMKilled":
        cause = (
            f"container {container} used more memory than its limit and was killed (exit code {code}{again})"
        )
        return TerminationClass.OUT_OF_MEMORY, cause, TerminationClass.OUT_OF_MEMORY.what_to_do
    cause = _with_words(f"container {container} ended with exit code {code}{again}", _last_line(ended))
    if container == names.WEIGHTS_CONTAINER:
        return Verdict.WEIGHTS_UNAVAILABLE, cause, Verdict.WEIGHTS_UNAVAILABLE.what_to_do
    return TerminationClass.ENGINE_CRASHED, cause, TerminationClass.ENGINE_CRASHED.what_to_do


def _deployment_problem(deployment: JsonObject) -> Problem | None:
    failure = find(deployment.get("status", {}).get("conditions", []), "ReplicaFailure")
    if failure is None or failure["status"] != TRUE:
        return None
    name = deployment["metadata"]["name"]
    words = str(failure.get("message") or "its pods are refused")
    reason = Reason.QUOTA_EXCEEDED if "exceeded quota" in words else Reason.POD_REFUSED
    return Problem(subject=name, revision=name, reason=reason, cause=words, fix=reason.what_to_do)


def _last_line(ended: JsonObject) -> str:
    lines = [line.strip() for line in str(ended.get("message") or "").splitlines() if line.strip()]
    return lines[-1][:_LAST_WORDS] if lines else ""


def _with_words(text: str, words: str) -> str:
    return f"{text}: {words}" if words else text
