from datetime import UTC, datetime, timedelta, timezone

from stoker.api.reasons import ConditionType, Reason
from stoker.core.conditions import Condition, find, merge, moment, timestamp

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


def ready(status, message="x", reason=Reason.SERVING):
    return Condition(type=ConditionType.READY, status=status, reason=reason, message=message)


def test_a_transition_time_changes_only_with_the_status():
    first = merge([], [ready("False")], generation=1, now=NOW)
    later = NOW + timedelta(hours=1)
    same = merge(first, [ready("False", message="y", reason=Reason.INVALID_SPEC)], generation=2, now=later)
    assert same[0]["lastTransitionTime"] == first[0]["lastTransitionTime"] == "2026-12-01T08:00:00Z"
    assert (same[0]["message"], same[0]["reason"], same[0]["observedGeneration"]) == ("y", "InvalidSpec", 2)
    turned = merge(same, [ready("True")], generation=2, now=later)
    assert turned[0]["lastTransitionTime"] == "2026-12-01T09:00:00Z"


def test_a_condition_that_is_not_said_any_more_goes():
    stalled = Condition(type=ConditionType.STALLED, status="True", reason=Reason.INVALID_SPEC, message="x")
    live = merge([], [ready("False"), stalled], generation=1, now=NOW)
    assert [c["type"] for c in merge(live, [ready("True")], generation=1, now=NOW)] == ["Ready"]


def test_a_condition_has_the_fields_that_metav1_asks_for():
    (condition,) = merge([], [ready("True")], generation=1, now=NOW)
    assert set(condition) == {
        "type",
        "status",
        "reason",
        "message",
        "lastTransitionTime",
        "observedGeneration",
    }
    assert find([condition], ConditionType.READY) is condition
    assert find([condition], ConditionType.STALLED) is None


def test_times_are_in_utc_and_read_back_as_they_were_written():
    zurich = timezone(timedelta(hours=1))
    assert timestamp(datetime(2026, 12, 1, 9, 0, tzinfo=zurich)) == "2026-12-01T08:00:00Z"
    assert moment(timestamp(NOW)) == NOW
