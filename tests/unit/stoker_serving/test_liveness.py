import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_serving.liveness import Liveness, Look, bound_s, counters_of


def look(at_s, *, in_flight=1, last_token_s=0.0, counters=None, answers=True):
    return Look(at_s=at_s, in_flight=in_flight, last_token_s=last_token_s, counters=counters, answers=answers)


def after(looks, *, stuck_s=10.0):
    liveness = Liveness(stuck_s=stuck_s, now_s=0.0)
    for one in looks:
        liveness.look(one)
    return liveness


@pytest.mark.parametrize(
    ("looks", "stuck"),
    [
        pytest.param([look(t) for t in range(12)], True, id="requests run and no token comes"),
        pytest.param([look(t) for t in range(10)], False, id="not yet for long enough"),
        pytest.param(
            [look(t, last_token_s=t) for t in range(60)], False, id="tokens come: alive however long it takes"
        ),
        pytest.param([look(t, in_flight=0) for t in range(60)], False, id="nothing to do"),
        pytest.param(
            [look(t, counters=(f"steps {t}",)) for t in range(60)],
            False,
            id="no client has got anything, but the engine counts steps",
        ),
        pytest.param(
            [look(t, counters=("steps 7",)) for t in range(13)],
            True,
            id="the engine answers and counts nothing",
        ),
        pytest.param(
            [look(t, in_flight=t % 2) for t in range(24)], True, id="clients that give up do not hide it"
        ),
        pytest.param(
            [look(t, in_flight=20) for t in range(25)], False, id="with many requests a token may take longer"
        ),
        pytest.param([look(t, in_flight=20) for t in range(31)], True, id="but not for ever"),
        pytest.param(
            [look(t, in_flight=0, answers=False) for t in range(12)],
            True,
            id="nothing to do and no answer: there is no reason to be slow",
        ),
        pytest.param([look(1), look(3600)], False, id="held up ourselves for an hour, which proves nothing"),
    ],
)
def test_stuck_or_only_busy(looks, stuck):
    assert after(looks).stuck is stuck


def test_the_worked_example_of_the_bound():
    assert bound_s(120, 30) == 149


@given(stuck_s=st.floats(0, 1e4), few=st.integers(0, 1000), more=st.integers(0, 1000))
def test_the_bound_never_shrinks_with_load(stuck_s, few, more):
    assert stuck_s <= bound_s(stuck_s, few) <= bound_s(stuck_s, few + more)


@given(st.lists(st.tuples(st.floats(0.1, 5), st.integers(0, 50), st.booleans())))
def test_a_token_always_clears_the_accusation(moments):
    at_s, token_s = 0.0, 0.0
    liveness = Liveness(stuck_s=5.0, now_s=0.0)
    for passed_s, in_flight, token in moments:
        at_s += passed_s
        token_s = at_s if token else token_s
        liveness.look(look(at_s, in_flight=in_flight, last_token_s=token_s))
        assert not (token and liveness.stuck)


def test_counters_are_those_that_move_when_the_engine_works():
    page = (
        "# HELP vllm:generation_tokens_total n\n"
        'vllm:generation_tokens_total{engine="0",model_name="m"} 17.0\n'
        'vllm:request_success_total{finished_reason="abort"} 3.0\n'
        'http_requests_total{method="GET"} 99.0\n'
        'vllm:iteration_tokens_total_count{engine="0"} 5.0\n'
    )
    assert counters_of(page) == (
        'vllm:generation_tokens_total{engine="0",model_name="m"} 17.0',
        'vllm:iteration_tokens_total_count{engine="0"} 5.0',
    )
