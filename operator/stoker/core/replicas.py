"""How many instances of a service are wanted now?

A pin in the spec wins. Else the last decision of the scaler, which is kept in the status so that a
restart of the operator forgets nothing. Else what is live: an edit of the spec, a new revision or
a new operator never lowers what serves, only a decision does. Both are clipped to the bounds.

Rejected: leaving `replicas` out of the Deployment (the API server would make it 1, and a new
revision of a fleet of five would start with one).
"""

from dataclasses import dataclass

from stoker.api.reasons import ScalingReason


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedReplicas:
    """A number of instances and why it is that."""

    count: int
    reason: ScalingReason
    message: str


def wanted_replicas(
    *, pinned: int | None, last_desired: int | None, live: int | None, least: int, most: int
) -> WantedReplicas:
    """Instances to keep.

    `pinned` is `spec.replicas`, `last_desired` is `status.scaling.desired`, `live` is the size of
    the serving revision's Deployment; each None when there is none. `least` and `most` are the
    bounds in `spec.scaling`; the pin is not held to them.

    Example: not pinned, last desired 5, bounds 1 to 3 -> 3, `Capped`.
    """
    if pinned is not None:
        return WantedReplicas(
            count=pinned, reason=ScalingReason.PINNED, message=f"`spec.replicas` pins the number to {pinned}"
        )
    known = last_desired if last_desired is not None else live
    if known is None:
        count = min(max(least, 1), most)
        return WantedReplicas(
            count=count,
            reason=ScalingReason.FLOOR,
            message=f"a new service starts with {count}, from bounds {least} to {most}",
        )
    if known < least:
        return WantedReplicas(
            count=least,
            reason=ScalingReason.FLOOR,
            message=f"{known} is below `scaling.minReplicas`, which is {least}",
        )
    if known > most:
        return WantedReplicas(
            count=most,
            reason=ScalingReason.CAPPED,
            message=f"{known} is above `scaling.maxReplicas`, which is {most}",
        )
    return WantedReplicas(
        count=known,
        reason=ScalingReason.NO_SIGNAL,
        message=f"no load numbers yet, so {known} stay as they are",
    )
