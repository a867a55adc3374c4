import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.reasons import ScalingReason
from stoker.core.replicas import wanted_replicas


@pytest.mark.parametrize(
    ("pinned", "last_desired", "live", "bounds", "count", "reason"),
    [
        pytest.param(None, 5, 2, (1, 3), 3, ScalingReason.CAPPED, id="the last decision, cut to the most"),
        pytest.param(2, 5, 5, (3, 9), 2, ScalingReason.PINNED, id="a pin wins over everything"),
        pytest.param(0, 5, 5, (1, 9), 0, ScalingReason.PINNED, id="a pin of zero stops the service"),
        pytest.param(
            None, 4, 2, (1, 9), 4, ScalingReason.NO_SIGNAL, id="the last decision outlives a restart"
        ),
        pytest.param(
            None, None, 4, (1, 9), 4, ScalingReason.NO_SIGNAL, id="what is live, without a decision"
        ),
        pytest.param(
            None, None, None, (2, 9), 2, ScalingReason.FLOOR, id="a new service starts with the fewest"
        ),
        pytest.param(
            None, None, None, (0, 9), 1, ScalingReason.FLOOR, id="a new service starts with one at least"
        ),
        pytest.param(
            None, 1, 1, (3, 9), 3, ScalingReason.FLOOR, id="O15: raised minReplicas are followed while idle"
        ),
        pytest.param(
            None, 0, None, (0, 9), 0, ScalingReason.NO_SIGNAL, id="zero stays zero until a decision"
        ),
    ],
)
def test_wants(pinned, last_desired, live, bounds, count, reason):
    wanted = wanted_replicas(
        pinned=pinned, last_desired=last_desired, live=live, least=bounds[0], most=bounds[1]
    )
    assert (wanted.count, wanted.reason) == (count, reason)


@given(live=st.integers(0, 500), least=st.integers(0, 500), span=st.integers(0, 500))
def test_without_a_decision_live_replicas_are_lowered_only_by_the_most_allowed(live, least, span):
    most = max(least + span, 1)
    wanted = wanted_replicas(pinned=None, last_desired=None, live=live, least=least, most=most)
    assert wanted.count >= min(live, most)
    assert least <= wanted.count <= most
