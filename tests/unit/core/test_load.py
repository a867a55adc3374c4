from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.load import InstanceLoad, ReplicaLoad, add_up


def seen(name="a", *, in_flight=1, usable=True, revision="r1"):
    return InstanceLoad(name=name, revision=revision, in_flight=in_flight, limit=4, usable=usable)


def replica(*instances, waiting=0, oldest_wait_s=0.0, woken_ago_s=None):
    return ReplicaLoad(
        waiting=waiting, oldest_wait_s=oldest_wait_s, woken_ago_s=woken_ago_s, instances=instances
    )


def test_what_waits_is_the_sum_and_the_oldest_is_the_oldest_anywhere():
    load = add_up(
        [replica(waiting=3, oldest_wait_s=2.0), replica(waiting=4, oldest_wait_s=5.0)], silent=0, totals={}
    )
    assert (load.heard, load.waiting, load.oldest_wait_s) == (2, 7, 5.0)


def test_an_instance_has_what_all_replicas_have_on_it():
    load = add_up(
        [replica(seen("b", in_flight=2), seen("a")), replica(seen("b", in_flight=3, usable=False))],
        silent=0,
        totals={},
    )
    assert load.instances == (
        seen("a"),
        InstanceLoad(name="b", revision="r1", in_flight=5, limit=8, usable=True),
    )
    assert load.in_flight == 6


def test_one_pod_name_in_two_revisions_is_two_instances():
    load = add_up([replica(seen(revision="r1"), seen(revision="r2"))], silent=0, totals={})
    assert [i.revision for i in load.instances] == ["r1", "r2"]


def test_the_latest_wake_counts():
    replicas = [replica(), replica(woken_ago_s=9.0), replica(woken_ago_s=2.0)]
    assert add_up(replicas, silent=0, totals={}).woken_ago_s == 2.0
    assert add_up([replica()], silent=0, totals={}).woken_ago_s is None


def test_silent_replicas_are_said_and_add_nothing():
    load = add_up([replica(waiting=1)], silent=2, totals={("arrived",): 7.0})
    assert (load.heard, load.silent, load.waiting, load.totals) == (1, 2, 1, {("arrived",): 7.0})


@given(counts=st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=4))
@settings(max_examples=50, deadline=None)
def test_no_request_is_lost_in_the_sum(counts):
    replicas = [
        replica(*(seen(f"pod-{n}", in_flight=count) for n, count in enumerate(of_one))) for of_one in counts
    ]
    assert add_up(replicas, silent=0, totals={}).in_flight == sum(map(sum, counts))
