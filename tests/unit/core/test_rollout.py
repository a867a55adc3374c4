import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.reasons import Reason
from stoker.core.rollout import PROPAGATION_S, RevisionState, decide


def state(name, *, size=3, ready=3, available=None, verified=None, has_served=False, mismatches=()):
    return RevisionState(
        name=name,
        size=size,
        ready=ready,
        available=ready if available is None else available,
        verified=ready if verified is None else verified,
        has_served=has_served,
        mismatches=mismatches,
    )


def serving(name="a", **fields):
    return state(name, has_served=True, **fields)


def step(*states, wanted, replicas=3, serving="a", selected="a", since_switch_s=60.0):
    return decide(
        wanted=wanted,
        replicas=replicas,
        serving=serving,
        selected=selected,
        revisions=states,
        since_switch_s=since_switch_s,
    )


@pytest.mark.parametrize(
    ("candidate", "size", "reason"),
    [
        pytest.param([], 1, Reason.ROLLING_OUT, id="not there yet: one instance"),
        pytest.param([state("b", size=1, ready=0)], 1, Reason.ROLLING_OUT, id="not Ready yet"),
        pytest.param([state("b", size=1, ready=1)], 3, Reason.ROLLING_OUT, id="Ready and verified: it grows"),
        pytest.param([state("b", size=3, ready=2)], 3, Reason.ROLLING_OUT, id="not whole yet"),
        pytest.param(
            [state("b", size=1, ready=1, verified=0)],
            1,
            Reason.VERIFYING,
            id="O6: it has not said what it is",
        ),
        pytest.param(
            [state("b", size=1, ready=1, verified=0, mismatches=("pod b-0 says that it is a and not b",))],
            1,
            Reason.WRONG_VERSION,
            id="it says it is something else",
        ),
        pytest.param(
            [state("b", size=3, ready=3, verified=2)],
            3,
            Reason.VERIFYING,
            id="one has not said what it is",
        ),
        pytest.param(
            [state("b", size=3, ready=3, available=2)],
            3,
            Reason.ROLLING_OUT,
            id="one is not available",
        ),
        pytest.param([state("b", size=3, ready=0)], 3, Reason.ROLLING_OUT, id="O2: it does not shrink"),
    ],
)
def test_until_the_candidate_is_whole_the_old_revision_does_not_notice(candidate, size, reason):
    decision = step(serving(), *candidate, wanted="b")
    assert decision.serving == "a"
    assert decision.sizes == {"a": 3, "b": size}
    assert decision.leaving == {}
    assert (decision.rolled_out, decision.reason) == (False, reason)
    assert "a goes on serving with 3 Ready" in decision.message


def test_a_whole_candidate_takes_over_in_one_step_and_the_old_one_stays_a_while():
    decision = step(serving(), state("b"), wanted="b")
    assert (decision.serving, decision.rolled_out, decision.reason) == ("b", True, Reason.UP_TO_DATE)
    assert decision.sizes == {"b": 3, "a": 3}
    assert decision.leaving == {}
    assert decision.look_again_s == PROPAGATION_S


@pytest.mark.parametrize(
    ("selected", "since_switch_s", "leaves", "look_again_s"),
    [
        pytest.param("b", 60.0, True, None, id="every node has heard of the change"),
        pytest.param("b", 2.0, False, 3.0, id="three seconds too early"),
        pytest.param("a", 60.0, False, PROPAGATION_S, id="the live Service still selects the old one"),
        pytest.param("b", None, False, PROPAGATION_S, id="nobody knows when it changed"),
    ],
)
def test_the_old_revision_leaves_when(selected, since_switch_s, leaves, look_again_s):
    decision = step(
        serving("b"), serving("a"), wanted="b", serving="b", selected=selected, since_switch_s=since_switch_s
    )
    assert decision.leaving == ({"a": "b serves in its place"} if leaves else {})
    assert decision.sizes == ({"b": 3} if leaves else {"b": 3, "a": 3})
    assert decision.look_again_s == look_again_s


def test_a_superseded_candidate_leaves_at_once():
    decision = step(serving(), state("b", ready=1), wanted="c", since_switch_s=0.0)
    assert decision.leaving == {"b": "a serves in its place"}
    assert decision.sizes == {"a": 3, "c": 1}


def test_going_back_to_the_old_spec_deletes_the_candidate_at_once():
    decision = step(serving(), state("b", ready=2), wanted="a", since_switch_s=0.0)
    assert decision.leaving == {"b": "a serves in its place"}
    assert (decision.serving, decision.sizes, decision.rolled_out) == ("a", {"a": 3}, True)


def test_an_old_revision_that_still_drains_stays_while_a_third_one_starts():
    decision = step(serving("b"), serving("a"), wanted="c", serving="b", selected="b", since_switch_s=1.0)
    assert decision.sizes == {"b": 3, "c": 1, "a": 3}
    assert decision.look_again_s == PROPAGATION_S - 1


def test_the_first_revision_has_its_full_size_from_the_start():
    decision = step(wanted="a", serving=None, selected=None, since_switch_s=None)
    assert (decision.serving, decision.sizes) == ("a", {"a": 3})
    assert (decision.has_served, decision.rolled_out, decision.reason) == (False, False, Reason.ROLLING_OUT)
    decision = step(state("a", ready=1), wanted="a", serving=None)
    assert (decision.has_served, decision.rolled_out) == (True, True)


def test_a_first_revision_of_which_no_instance_is_wanted_is_rolled_out_and_has_not_served():
    decision = step(state("a", size=0, ready=0), wanted="a", serving=None, replicas=0)
    assert (decision.has_served, decision.rolled_out, decision.reason) == (False, True, Reason.UP_TO_DATE)


def test_a_first_revision_that_never_served_is_replaced_at_once():
    decision = step(state("a", ready=0), wanted="b", serving=None)
    assert (decision.serving, decision.sizes) == ("b", {"b": 3})
    assert decision.leaving == {"a": "b serves in its place"}


def test_one_good_instance_takes_over_from_a_revision_that_has_none_left():
    decision = step(serving(ready=0), state("b", size=3, ready=1), wanted="b")
    assert decision.serving == "b"
    assert step(serving(ready=0), state("b", size=3, ready=1, verified=0), wanted="b").serving == "a"


def test_with_no_replicas_wanted_a_new_revision_takes_over_at_once():
    decision = step(serving(size=0, ready=0), wanted="b", replicas=0)
    assert (decision.serving, decision.sizes["b"], decision.rolled_out) == ("b", 0, True)


def test_the_old_revision_follows_the_scaler_while_a_candidate_starts():
    assert step(serving(), state("b", size=1, ready=0), wanted="b", replicas=5).sizes == {"a": 5, "b": 1}


def test_a_serving_revision_whose_deployment_cannot_be_seen_keeps_the_traffic():
    assert step(serving(size=0, ready=3, available=0), wanted="b").serving == "a"
    assert step(wanted="b", serving="a", replicas=1).serving == "a"


counts = st.integers(0, 4)


@st.composite
def any_state(draw, name):
    ready = draw(counts)
    return state(
        name,
        size=draw(counts),
        ready=ready,
        available=draw(st.integers(0, ready)),
        verified=draw(st.integers(0, ready)),
        has_served=draw(st.booleans()),
    )


@given(
    states=st.tuples(*(any_state(name) for name in "abc")),
    present=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    wanted=st.sampled_from("abc"),
    serving_name=st.sampled_from(["a", "b", "c", None]),
    replicas=counts,
    since_switch_s=st.none() | st.floats(0, 10),
)
def test_traffic_moves_only_to_verified_instances_and_nothing_that_serves_leaves(
    states, present, wanted, serving_name, replicas, since_switch_s
):
    there = [item for item, is_there in zip(states, present, strict=True) if is_there]
    serving_name = serving_name if serving_name in {item.name for item in there} else None
    decision = step(
        *there, wanted=wanted, replicas=replicas, serving=serving_name, since_switch_s=since_switch_s
    )
    by_name = {item.name: item for item in there}
    assert decision.serving not in decision.leaving
    assert wanted not in decision.leaving
    assert decision.leaving.keys().isdisjoint(decision.sizes)
    assert decision.leaving.keys() | decision.sizes.keys() >= by_name.keys()
    if serving_name and decision.serving != serving_name and replicas:
        assert by_name[decision.serving].verified > 0
    if serving_name and decision.serving == serving_name:
        assert decision.sizes[serving_name] == replicas
