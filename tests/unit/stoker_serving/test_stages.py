from hypothesis import given
from hypothesis import strategies as st

from stoker_serving.stages import Stage, StageClock


def test_each_stage_has_its_seconds():
    now_s = [0.0]
    clock = StageClock(now_s=lambda: now_s[0])
    now_s[0] = 2.0
    assert clock.enter(Stage.STARTING)
    now_s[0] = 5.0
    assert clock.enter(Stage.LOADING)
    now_s[0] = 6.0
    assert clock.report() == [
        {"name": "Weights", "seconds": 2.0},
        {"name": "Starting", "seconds": 3.0},
        {"name": "Loading", "seconds": 1.0},
    ]


@given(st.lists(st.sampled_from(Stage)))
def test_stages_only_go_forward(stages):
    clock = StageClock(now_s=lambda: 0.0)
    order = list(Stage)
    for stage in stages:
        before = clock.stage
        assert clock.enter(stage) is (order.index(stage) > order.index(before))
        assert order.index(clock.stage) == max(order.index(before), order.index(stage))
