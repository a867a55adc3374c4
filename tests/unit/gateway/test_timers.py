import gc
import weakref

from hypothesis import given
from hypothesis import strategies as st

from stoker.gateway.timers import NEVER_S, Timed, TimerWheel


class Bound(Timed):
    __slots__ = ("__weakref__", "over_s")

    def __init__(self):
        super().__init__()
        self.over_s = []

    def on_deadline(self, now_s):
        self.over_s.append(now_s)


class Clock:
    def __init__(self):
        self.now_s = 100.0
        self.wheel = TimerWheel(clock=lambda: self.now_s, each_slot=lambda now_s: None)

    def pass_by(self, seconds, step_s=0.25):
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += step_s
            self.wheel.turn(self.now_s)


@given(st.lists(st.floats(0, 20), min_size=1, max_size=20))
def test_a_bound_is_kept_never_early_and_late_by_at_most_two_slots(delays):
    clock = Clock()
    bounds = [Bound() for _ in delays]
    for bound, delay in zip(bounds, delays, strict=True):
        clock.wheel.watch(bound, clock.now_s + delay)
    clock.pass_by(25)
    for bound, delay in zip(bounds, delays, strict=True):
        (over_s,) = bound.over_s
        assert 100 + delay <= over_s <= 100 + delay + 0.5


def test_a_bound_can_be_put_off_by_assignment_and_brought_forward_by_watching_again():
    clock = Clock()
    later, sooner, never = Bound(), Bound(), Bound()
    clock.wheel.watch(later, clock.now_s + 1)
    later.deadline_s = clock.now_s + 5
    clock.wheel.watch(sooner, clock.now_s + 60)
    clock.wheel.watch(sooner, clock.now_s + 1)
    clock.wheel.watch(never, clock.now_s + 1)
    never.deadline_s = NEVER_S
    clock.pass_by(4)
    assert (later.over_s, len(sooner.over_s), never.over_s) == ([], 1, [])
    clock.pass_by(2)
    assert len(later.over_s) == 1
    clock.wheel.watch(never, clock.now_s + 1)
    clock.pass_by(2)
    assert len(never.over_s) == 1


def test_a_process_that_stood_still_catches_up():
    clock = Clock()
    bound = Bound()
    clock.wheel.watch(bound, clock.now_s + 1)
    clock.pass_by(60, step_s=60)
    assert len(bound.over_s) == 1


def test_what_is_forgotten_is_not_kept_alive():
    clock = Clock()
    bound = Bound()
    clock.wheel.watch(bound, clock.now_s + 75)
    clock.wheel.forget(bound)
    gone = weakref.ref(bound)
    del bound
    gc.collect()
    assert gone() is None


def test_one_that_ends_another_in_the_same_slot():
    clock = Clock()
    first, second = Bound(), Bound()

    class Ends(Bound):
        __slots__ = ()

        def on_deadline(self, now_s):
            clock.wheel.forget(first)
            clock.wheel.forget(second)
            super().on_deadline(now_s)

    for bound in (first, Ends(), second):
        clock.wheel.watch(bound, clock.now_s + 1)
    clock.pass_by(3)
    assert len(first.over_s) <= 1
    assert len(second.over_s) <= 1


def test_slots_of_bounds_that_are_over_early_take_no_memory():
    clock = Clock()
    bounds = [Bound() for _ in range(10)]
    for _ in range(1000):
        for bound in bounds:
            clock.wheel.watch(bound, clock.now_s + 3600)
            clock.wheel.watch(bound, clock.now_s + 4)
        clock.pass_by(0.25)
    for bound in bounds:
        clock.wheel.forget(bound)
    assert clock.wheel._slots == {}
