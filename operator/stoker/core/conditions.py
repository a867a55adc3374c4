"""What is said about a service, in the form that Kubernetes' tools understand.

metav1 conditions: a type, a status, a reason to branch on, a sentence to read, the generation that
it speaks of, and the time since when the status (not the sentence) is what it is. kstatus, and so
`helm --wait`, Flux and `kubectl wait`, read `Reconciling` and `Stalled` first and `Ready` after
them; those two are left out while they are not True.

Source: KEP-1623 for the shape, sigs.k8s.io/cli-utils `pkg/kstatus` for the order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from stoker.api.reasons import ConditionType, Explained
from stoker.core.model import JsonObject

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One statement; without its time, which `merge` knows."""

    type: ConditionType
    status: str
    """`True`, `False` or `Unknown`."""
    reason: Explained
    message: str


def find(conditions: Iterable[JsonObject], type_: str) -> JsonObject | None:
    """The condition of a type among those of any Kubernetes object."""
    return next((condition for condition in conditions if condition.get("type") == type_), None)


def merge(
    live: Sequence[JsonObject], wanted: Iterable[Condition], *, generation: int, now: datetime
) -> list[JsonObject]:
    """The conditions to write. A transition time changes only when its status does."""
    merged = []
    for condition in wanted:
        before = find(live, condition.type)
        unchanged = before is not None and before.get("status") == condition.status
        merged.append(
            {
                "type": condition.type.value,
                "status": condition.status,
                "observedGeneration": generation,
                "lastTransitionTime": before["lastTransitionTime"]
                if before and unchanged
                else timestamp(now),
                "reason": condition.reason.value,
                "message": condition.message,
            }
        )
    return merged


def timestamp(at: datetime) -> str:
    """A moment as Kubernetes writes it: RFC 3339, UTC, whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime:
    """The moment that a Kubernetes timestamp names."""
    return datetime.fromisoformat(text)
