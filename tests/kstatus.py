"""What kstatus says of an object: the rules by which Helm's `--wait`, Flux and others judge it.

A port of the rules for kinds that the library has no special knowledge of. Source: `generic.go` and
`status.go` in `pkg/kstatus/status` of kubernetes-sigs/cli-utils (Apache-2.0), commit 5895ad6; the
fork that Flux and Helm 4 use (fluxcd/cli-utils, commit 967855f) has the same rules. The rules for
built-in kinds are left out: Stoker's own kinds are what we must answer for.

The order matters and is easy to get wrong: a generation that is behind wins over every condition,
`Reconciling` and `Stalled` win over `Ready`, and between those two the first in the list wins.
"""

from dataclasses import dataclass

CURRENT = "Current"
FAILED = "Failed"
IN_PROGRESS = "InProgress"
TERMINATING = "Terminating"


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict, and the sentence that a person is shown with it."""

    status: str
    message: str


def kstatus(obj: dict) -> Result:
    """The verdict on an object that holds its complete status."""
    metadata, status = obj.get("metadata", {}), obj.get("status", {})
    if metadata.get("deletionTimestamp"):
        return Result(TERMINATING, "Resource scheduled for deletion")
    if "generation" in metadata and "observedGeneration" in status:
        kind, generation = obj["kind"], metadata["generation"]
        observed = status["observedGeneration"]
        if observed != generation:
            message = f"{kind} generation is {generation}, but latest observed generation is {observed}"
            return Result(IN_PROGRESS, message)
    return _by_condition(status.get("conditions", []))


def _by_condition(conditions: list[dict]) -> Result:
    for condition in conditions:
        if condition["status"] == "True" and condition["type"] == "Reconciling":
            return Result(IN_PROGRESS, condition["message"])
        if condition["status"] == "True" and condition["type"] == "Stalled":
            return Result(FAILED, condition["message"])
    for condition in conditions:
        if condition["type"] == "Ready" and condition["status"] == "True":
            return Result(CURRENT, "Resource is Ready")
        if condition["type"] == "Ready" and condition["status"] in ("False", "Unknown"):
            return Result(IN_PROGRESS, condition["message"])
    return Result(CURRENT, "Resource is current")
