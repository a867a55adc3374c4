"""How a service says that a change Stoker wanted to make was refused.

`Reconciling` when time may help, `Stalled` when a person has to act: kstatus takes the first for
progress and the second for failure. `Ready` stays what it is, as what serves goes on serving.
"""

from datetime import datetime

from stoker.api.reasons import ConditionType, Reason
from stoker.core.conditions import TRUE, Condition, merge
from stoker.core.model import Event, JsonObject
from stoker.kube.errors import InvalidError, KubeError

_TELLS_OF_FAILURE = (ConditionType.RECONCILING, ConditionType.STALLED)


def with_failure(status: JsonObject, error: KubeError, *, service: JsonObject, now: datetime) -> JsonObject:
    """The status of a plan that could not be carried out to its end."""
    needs_a_person = isinstance(error, InvalidError)
    failure = Condition(
        type=ConditionType.STALLED if needs_a_person else ConditionType.RECONCILING,
        status=TRUE,
        reason=Reason.APPLY_FAILED,
        message=str(error),
    )
    others = [c for c in status.get("conditions", ()) if c["type"] not in _TELLS_OF_FAILURE]
    told = merge(
        service.get("status", {}).get("conditions", ()),
        [failure],
        generation=service["metadata"]["generation"],
        now=now,
    )
    return status | {"conditions": others + told}


def failure_event(error: KubeError) -> Event:
    """The Event that goes with it."""
    return Event(type="Warning", reason=Reason.APPLY_FAILED, message=str(error))
