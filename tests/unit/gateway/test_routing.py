import random
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.unit.gateway.waiters import Waiter, an_instance

from stoker.gateway.instances import Evidence
from stoker.gateway.rendezvous import key_of
from stoker.gateway.routing import Router


def a_router(*instances, weights=None, draw=lambda: 0.0):
    router = Router(draw=draw)
    router.set(instances, weights or {})
    return router


def busy(instance, count, now_s=0.0):
    for _ in range(count):
        instance.acquire(now_s)
    return instance


def eject(instance, now_s=0.0):
    for _ in range(3):
        instance.release(instance.acquire(now_s), Evidence.FAILED, now_s)
    return instance


def fleet(count, **fields):
    return [an_instance(f"p{i}", **fields) for i in range(count)]


def test_nobody_is_chosen_where_nobody_is():
    assert a_router().choose(Waiter(), 0) is None


@pytest.mark.parametrize(
    "draws",
    [pytest.param([a, b], id=f"drawn {a} and {b}") for a in (0.0, 0.5, 0.99) for b in (0.0, 0.99)],
)
def test_the_less_loaded_of_two_is_chosen(draws):
    left = iter(draws)
    a, b = busy(an_instance("a", limit=10), 5), busy(an_instance("b", limit=10), 2)
    assert a_router(a, b, draw=lambda: next(left)).choose(Waiter(), 0) is b


def test_two_different_ones_are_drawn_each_as_often_as_any():
    chance = random.Random(1)
    instances = fleet(5, limit=10_000)
    router = a_router(*instances, draw=chance.random)
    chosen = Counter(router.choose(Waiter(), 0).name for _ in range(5_000))
    # All equally loaded: the first drawn is taken.
    assert all(count == pytest.approx(1_000, rel=0.1) for count in chosen.values())
    assert len(chosen) == 5


def test_load_is_relative_to_the_limit():
    small, big = busy(an_instance("s", limit=4), 2), busy(an_instance("b", limit=40), 3)
    assert a_router(small, big).choose(Waiter(), 0) is big


def test_what_the_engine_says_about_other_gateways_counts():
    a, b = an_instance("a", limit=10), busy(an_instance("b", limit=10), 2)
    a.says_in_flight(6, 0)
    assert a_router(a, b).choose(Waiter(), 0) is b


def test_when_chance_draws_full_ones_the_least_loaded_with_room_is_found():
    instances = fleet(5, limit=2)
    for instance in instances[:3]:
        busy(instance, 2)
    busy(instances[3], 1)
    assert a_router(*instances).choose(Waiter(), 0) is instances[4]


def test_all_full_is_nobody():
    assert a_router(*[busy(i, 2) for i in fleet(3, limit=2)]).choose(Waiter(), 0) is None


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({}, id="by load"),
        pytest.param({"prefix_key": 7}, id="by prefix"),
        pytest.param({"session_key": 7}, id="by session"),
    ],
)
@pytest.mark.parametrize(
    "weights", [pytest.param({}, id="no weights"), pytest.param({"r1": 50, "r2": 50}, id="two revisions")]
)
@given(data=st.data())
def test_whoever_is_chosen_has_room_is_usable_and_has_not_failed_this_request(keys, weights, data):
    chance = random.Random(data.draw(st.integers(0, 100)))
    instances = fleet(3, limit=2) + [an_instance(f"q{i}", limit=2, revision="r2") for i in range(2)]
    for instance in instances:
        busy(instance, data.draw(st.integers(0, 2)))
        if data.draw(st.booleans()):
            eject(instance)
        instance.leaving = data.draw(st.booleans())
    waiter = Waiter(**keys)
    waiter.excluded = [i for i in instances if data.draw(st.booleans())]
    chosen = a_router(*instances, weights=weights, draw=chance.random).choose(waiter, 1.0)
    allowed = [i for i in instances if not i.leaving and i not in waiter.excluded]
    usable = [i for i in allowed if i.usable(1.0)]
    with_room = [i for i in usable or allowed if i.has_room(1.0)]
    assert (chosen in with_room) if with_room else chosen is None


def test_a_session_always_goes_to_its_instance():
    instances = fleet(5, limit=100)
    router = a_router(*instances, draw=random.Random(1).random)
    home = router.choose(Waiter(session_key=key_of(b"s")), 0)
    busy(home, 99)
    assert router.choose(Waiter(session_key=key_of(b"s")), 0) is home


def test_a_session_whose_instance_is_full_goes_to_its_second_and_comes_back():
    instances = fleet(5, limit=1)
    router = a_router(*instances)
    waiter = Waiter(session_key=key_of(b"s"))
    home = router.choose(waiter, 0)
    ticket = home.acquire(0)
    second = {router.choose(waiter, 0) for _ in range(10)}
    assert len(second) == 1
    assert home not in second
    home.release(ticket, Evidence.NONE, 0)
    assert router.choose(waiter, 0) is home


@pytest.mark.parametrize("by", ["session_key", "prefix_key"])
@given(count=st.integers(2, 8), gone=st.integers(0, 7))
@settings(max_examples=15)
def test_when_an_instance_goes_only_what_belongs_to_it_moves(by, count, gone):
    assume(gone < count)
    instances = fleet(count, limit=10)
    router = a_router(*instances)
    keys = [key_of(f"prompt {i}".encode()) for i in range(100)]
    before = {key: router.choose(Waiter(**{by: key}), 0) for key in keys}
    left = [i for i in instances if i is not instances[gone]]
    router.set(left, {})
    after = {key: router.choose(Waiter(**{by: key}), 0) for key in keys}
    assert all(after[key] is home for key, home in before.items() if home is not instances[gone])
    assert instances[gone] not in after.values()


@pytest.mark.parametrize(
    ("ahead", "stays"),
    [
        pytest.param(4, True, id="up to four requests ahead it is worth it"),
        pytest.param(5, False, id="the fifth goes elsewhere"),
    ],
)
def test_a_prompt_leaves_its_instance_when_that_is_too_far_ahead(ahead, stays):
    instances = fleet(3, limit=32)
    router = a_router(*instances)
    home = router.choose(Waiter(prefix_key=1), 0)
    for instance in instances:
        busy(instance, 2)
    busy(home, ahead)
    assert (router.choose(Waiter(prefix_key=1), 0) is home) is stays


def test_with_a_large_limit_it_may_be_further_ahead():
    a, b = fleet(2, limit=256)
    router = a_router(a, b)
    home = busy(router.choose(Waiter(prefix_key=1), 0), 32)
    assert router.choose(Waiter(prefix_key=1), 0) is home
    assert router.choose(Waiter(prefix_key=1), 0) is home
    busy(home, 1)
    assert router.choose(Waiter(prefix_key=1), 0) is not home


def test_a_system_prompt_that_all_clients_share_spreads_over_all_instances():
    """G9: a long shared system prompt from all clients."""
    instances = fleet(8, limit=64)
    router = a_router(*instances, draw=random.Random(1).random)
    for count in range(1, 257):
        busy(router.choose(Waiter(prefix_key=1), 0), 1)
        # Eight ahead of the less loaded of two, which may itself be as far ahead of the others.
        assert max(i.in_flight for i in instances) <= count / 8 + 2 * 8 + 1
    assert min(i.in_flight for i in instances) >= 256 / 8 / 2


def test_under_light_load_a_shared_prompt_stays_where_it_is_cached():
    router = a_router(*fleet(4, limit=32))
    chosen = set()
    for _ in range(50):
        instance = router.choose(Waiter(prefix_key=1), 0)
        chosen.add(instance.name)
        instance.release(instance.acquire(0), Evidence.ANSWERED, 0)
    assert len(chosen) == 1


def revisions(router, count):
    return Counter(router.choose(Waiter(), 0).revision for _ in range(count))


@given(
    weights=st.dictionaries(st.sampled_from(["r1", "r2", "r3"]), st.integers(1, 99), min_size=2),
    count=st.integers(1, 400),
)
def test_each_revision_is_at_most_one_request_away_from_its_share(weights, count):
    instances = [an_instance(r, limit=10_000, revision=r) for r in weights]
    chosen = revisions(a_router(*instances, weights=weights), count)
    total = sum(weights.values())
    assert all(abs(chosen[r] - count * weight / total) <= 1 for r, weight in weights.items())


def test_shares_are_of_requests_however_many_instances_a_revision_has():
    instances = [*fleet(9, limit=1_000), an_instance("new", limit=1_000, revision="r2")]
    chosen = revisions(a_router(*instances, weights={"r1": 90, "r2": 10}), 1_000)
    assert chosen == {"r1": 900, "r2": 100}


def test_shares_stay_exact_while_instances_come_and_go():
    router = a_router(*(instances := fleet(3, limit=1_000)))
    new = an_instance("new", limit=1_000, revision="r2")
    chosen = Counter()
    for i in range(1_000):
        router.set([*instances[: 1 + i % 3], new], {"r1": 75, "r2": 25})
        chosen[router.choose(Waiter(), 0).revision] += 1
    assert chosen == {"r1": 750, "r2": 250}


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        pytest.param(lambda i: setattr(i, "leaving", True), "leaving", id="which is leaving"),
        pytest.param(lambda i: busy(i, 2), "full", id="which is full"),
        pytest.param(eject, "ejected", id="which is ejected"),
    ],
)
def test_a_revision_gets_nothing_through_an_instance(prepare, why):
    old, new = an_instance("old", limit=100), an_instance("new", limit=2, revision="r2")
    prepare(new)
    assert revisions(a_router(old, new, weights={"r1": 1, "r2": 99}), 50) == {"r1": 50}


def test_a_share_that_could_not_be_had_is_not_made_up_for():
    old, new = an_instance("old", limit=1_000), an_instance("new", limit=2, revision="r2")
    router = a_router(old, new, weights={"r1": 50, "r2": 50})
    tickets = [new.acquire(0), new.acquire(0)]
    assert revisions(router, 100) == {"r1": 100}
    for ticket in tickets:
        new.release(ticket, Evidence.ANSWERED, 0)
    assert revisions(router, 10)["r2"] == 5


@pytest.mark.parametrize(
    "prepare",
    [
        pytest.param(lambda i: None, id="while the weighted one has room"),
        pytest.param(lambda i: busy(i, 1), id="while the weighted one is full"),
        pytest.param(eject, id="while the weighted one is ejected"),
    ],
)
def test_a_revision_of_weight_0_gets_nothing(prepare):
    weighted = an_instance("old", limit=2)
    zero = an_instance("bad", limit=100, revision="r2")
    unnamed = an_instance("unknown", limit=100, revision="r3")
    prepare(weighted)
    router = a_router(weighted, zero, unnamed, weights={"r1": 100, "r2": 0})
    assert router.choose(Waiter(), 0) is weighted
    busy(weighted, 2)
    assert router.choose(Waiter(), 0) is None


def test_a_revision_of_weight_0_serves_when_it_is_all_there_is():
    previous = an_instance("previous", revision="r1")
    lost = an_instance("lost", revision="r2")
    lost.leaving = True
    router = a_router(previous, lost, weights={"r1": 0, "r2": 100})
    assert router.choose(Waiter(), 0) is previous


def test_without_weights_all_instances_count_alike():
    instances = [*fleet(3, limit=1_000), an_instance("new", limit=1_000, revision="r2")]
    chosen = revisions(a_router(*instances, draw=random.Random(1).random), 4_000)
    assert chosen["r2"] == pytest.approx(1_000, rel=0.1)


def test_sessions_are_shared_out_by_the_weights():
    instances = [an_instance(r, limit=10, revision=r) for r in ("r1", "r2")]
    router = a_router(*instances, weights={"r1": 90, "r2": 10})
    chosen = Counter(router.choose(Waiter(session_key=key_of(b"%d" % i)), 0).revision for i in range(4_000))
    assert chosen["r2"] == pytest.approx(400, rel=0.15)


def test_when_weights_move_sessions_move_only_to_the_revision_that_gains():
    instances = [an_instance(r, limit=10, revision=r) for r in ("r1", "r2")]
    router = a_router(*instances, weights={"r1": 90, "r2": 10})
    sessions = [Waiter(session_key=key_of(b"%d" % i)) for i in range(500)]
    before = [router.choose(s, 0).revision for s in sessions]
    router.set(instances, {"r1": 50, "r2": 50})
    after = [router.choose(s, 0).revision for s in sessions]
    assert {(a, b) for a, b in zip(before, after, strict=True) if a != b} == {("r1", "r2")}


@pytest.mark.parametrize(
    "weights", [pytest.param({}, id="no weights"), pytest.param({"r1": 50, "r2": 50}, id="two revisions")]
)
def test_when_all_are_ejected_the_one_whose_time_is_over_first_is_used(weights):
    a, b = an_instance("a", limit=2), an_instance("b", limit=2, revision="r2")
    eject(b, 0.0)
    eject(a, 1.0)
    router = a_router(a, b, weights=weights)
    assert router.choose(Waiter(), 2.0) is b
    busy(b, 2, 2.0)
    assert router.choose(Waiter(), 2.0) is a


def test_a_half_open_instance_gets_one_request_at_a_time():
    good, tried = fleet(2, limit=10)
    eject(tried)
    router = a_router(good, tried)
    busy(good, 5, 10.0)
    assert router.choose(Waiter(), 10.0) is tried
    tried.acquire(10.0)
    assert router.choose(Waiter(), 10.0) is good


@pytest.mark.parametrize(
    ("excluded", "elsewhere"),
    [
        pytest.param([], True, id="none has failed it"),
        pytest.param([0], True, id="one of two has failed it"),
        pytest.param([0, 1], False, id="both have"),
    ],
)
def test_a_request_could_go_elsewhere_while_there_is_one_that_has_not_failed_it(excluded, elsewhere):
    instances = [busy(i, 2) for i in fleet(2, limit=2)]
    router = a_router(*instances)
    assert router.could_go_elsewhere([instances[i] for i in excluded]) is elsewhere


def test_it_is_settled_when_all_its_instances_are():
    old, new = an_instance("old"), an_instance("new", ready_since_s=0)
    router = a_router(old, new)
    assert [router.settled(4), router.settled(5)] == [False, True]


def test_slots_are_those_of_usable_instances_that_get_requests():
    full, ejected, new = an_instance("a", limit=4), an_instance("b", limit=8), an_instance("c", limit=8)
    other = an_instance("d", limit=100, revision="r2")
    new.begin(10.0)
    ejected.release(ejected.acquire(10.0), Evidence.SILENT, 10.0)
    router = a_router(full, ejected, new, other, weights={"r1": 100})
    # A new one begins with a quarter of its limit.
    assert router.slots(10.0) == 4 + 2
    assert router.slots(20.0) == 4 + 8 + 8


def test_there_is_room_where_an_instance_that_gets_requests_takes_one_more():
    one, other = an_instance("a", limit=1), an_instance("b", limit=1, revision="r2")
    router = a_router(one, other, weights={"r1": 100})
    assert router.has_room(0.0)
    one.acquire(0.0)
    assert not router.has_room(0.0)
