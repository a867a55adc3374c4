"""What holds whatever happens: random offers, departures, failures, ejections and churn of instances."""

import random
from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.gateway.waiters import Waiter, an_instance

from stoker.gateway.admission import ServiceQueue
from stoker.gateway.errors import Rejection
from stoker.gateway.instances import Evidence
from stoker.gateway.routing import Router

WEIGHTS = [{}, {"r1": 100}, {"r1": 90, "r2": 10}, {"r1": 0, "r2": 100}]


class Request(Waiter):
    """A waiter that checks, when it starts, that it was its turn and that there was room."""

    def __init__(self, world, number, **fields):
        super().__init__(str(number), **fields)
        self.world = world
        self.number = number
        self.left = False

    def start(self, instance):
        assert not self.left
        assert not self.refused
        assert instance not in self.excluded
        assert instance.has_room(self.world.now_s)
        assert instance in self.world.queue_router.instances
        self.now_s = self.world.now_s
        self.world.starts(self)
        super().start(instance)

    def refuse(self, rejection):
        assert not self.left
        assert not self.refused
        assert self.instance is None
        super().refuse(rejection)

    @property
    def refused(self):
        return any(isinstance(o, Rejection) for o in self.outcomes)

    @property
    def waits(self):
        return not self.left and not self.refused and self.instance is None


class Admission(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.now_s = 100.0
        self.numbers = iter(range(1_000_000))
        self.requests = []
        self.instances = []
        self.gone = []
        self.weights = {}
        chance = random.Random(7)
        self.queue_router = Router(draw=chance.random)
        self.queue = ServiceQueue(
            name="demo/chat", router=self.queue_router, draw=chance.random, on_wake=lambda: None
        )
        self.queue.max_requests = 6
        self.queue.max_wait_s = 30.0
        self.queue.starting = True

    def starts(self, request):
        """The first of its workload, if no instance failed it before."""
        if request.excluded:
            return
        ahead = [
            r
            for r in self.requests
            if r.waits and not r.excluded and r.priority == request.priority and r.number < request.number
        ]
        assert all(r.workload != request.workload for r in ahead)

    def running(self):
        return [r for r in self.requests if r.instance is not None]

    def waiting(self):
        return [r for r in self.requests if r.waits]

    @initialize(limits=st.lists(st.integers(1, 2), max_size=2))
    def instances_at_first(self, limits):
        for limit in limits:
            self.instance_comes("r1", limit, ready_since_s=0.0)

    @rule(
        workloads=st.text("ab", min_size=1, max_size=5),
        priority=st.sampled_from([0, 0, 0, 1]),
        prefix_key=st.sampled_from([None, 1, 2]),
        session_key=st.sampled_from([None, None, 3]),
    )
    def offers(self, workloads, **fields):
        for workload in workloads:
            request = Request(self, next(self.numbers), workload=workload, **fields)
            self.requests.append(request)
            self.queue.offer(request, self.now_s)

    @precondition(lambda self: self.waiting())
    @rule(data=st.data())
    def client_leaves_the_queue(self, data):
        request = data.draw(st.sampled_from(self.waiting()))
        assert self.queue.leave(request)
        request.left = True

    @precondition(lambda self: self.running())
    @rule(data=st.data(), evidence=st.sampled_from([Evidence.ANSWERED, Evidence.ANSWERED, Evidence.NONE]))
    def ends(self, data, evidence):
        request = data.draw(st.sampled_from(self.running()))
        self.release(request, evidence)
        request.left = True
        self.queue.finished(self.now_s)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), evidence=st.sampled_from([Evidence.FAILED, Evidence.SILENT]))
    def fails_before_the_first_byte(self, data, evidence):
        request = data.draw(st.sampled_from(self.running()))
        failed = request.instance
        self.release(request, evidence)
        request.excluded.append(failed)
        taken = self.queue.requeue(request, self.now_s)
        if not taken:
            request.left = True
        assert taken == (request.waits or request.instance is not None)
        self.queue.finished(self.now_s)

    def release(self, request, evidence):
        request.release(evidence, self.now_s)
        request.instance = None

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def first_byte(self, data):
        request = data.draw(st.sampled_from(self.running()))
        request.instance.answered(request.ticket, self.now_s)

    @precondition(lambda self: len(self.instances) < 4)
    @rule(revision=st.sampled_from(["r1", "r2"]), limit=st.integers(1, 4))
    def another_instance(self, revision, limit):
        self.instance_comes(revision, limit, ready_since_s=self.now_s)

    def instance_comes(self, revision, limit, *, ready_since_s):
        name = f"p{next(self.numbers)}"
        self.instances.append(an_instance(name, limit=limit, revision=revision, ready_since_s=ready_since_s))
        self.changed()

    @precondition(lambda self: self.instances)
    @rule(data=st.data())
    def instance_goes(self, data):
        instance = data.draw(st.sampled_from(self.instances))
        instance.leaving = True
        self.instances.remove(instance)
        self.gone.append(instance)
        self.changed()

    @rule(weights=st.sampled_from(WEIGHTS))
    def weights_change(self, weights):
        self.weights = weights
        self.changed()

    @rule(starting=st.booleans())
    def expectation_changes(self, starting):
        self.queue.starting = starting
        self.queue.pump(self.now_s)

    @rule(seconds=st.sampled_from([0.1, 1.0, 6.0, 31.0]))
    def time_passes(self, seconds):
        self.now_s += seconds
        next_s = self.queue.expire(self.now_s)
        assert (next_s is None) == (not self.waiting())
        assert next_s is None or 0 < next_s <= 30
        assert all(r.deadline_s > self.now_s for r in self.waiting())

    def changed(self):
        self.queue_router.set(self.instances, self.weights)
        self.queue.pump(self.now_s)

    @invariant()
    def in_flight_is_what_runs_and_never_over_the_limit(self):
        counts = defaultdict(int)
        for request in self.running():
            counts[request.instance] += 1
        for instance in self.instances + self.gone:
            assert instance.in_flight == counts[instance] <= instance.limit

    @invariant()
    def the_queue_holds_exactly_those_that_wait(self):
        waiting = self.waiting()
        assert self.queue.queued == len(waiting)
        assert sum(not r.excluded for r in waiting) <= self.queue.max_requests
        assert self.queue.queued_tokens == 0

    @invariant()
    def nobody_waits_for_nothing(self):
        if not self.instances and not self.queue.starting:
            assert not self.waiting()

    @invariant()
    def nobody_new_waits_while_an_instance_has_room(self):
        """But time alone may have made room since the queue was last looked at."""
        router = self.queue_router
        if any(not r.excluded for r in self.waiting()) and router.settled(self.now_s):
            weighted = [i for i in self.instances if self.weights.get(i.revision, 0) > 0]
            assert not any(i.is_open(self.now_s) for i in weighted or self.instances)

    def teardown(self):
        """When all instances are gone, nothing is left anywhere."""
        while self.running():
            request = self.running()[0]
            self.release(request, Evidence.ANSWERED)
            request.left = True
            self.queue.finished(self.now_s)
        self.queue.starting = False
        self.queue_router.set([], {})
        self.queue.pump(self.now_s)
        assert self.queue.queued == 0
        assert all(i.in_flight == 0 for i in self.instances + self.gone)
        assert all(r.left or r.refused for r in self.requests)
        assert all(sum(isinstance(o, Rejection) for o in r.outcomes) <= 1 for r in self.requests)


TestAdmission = Admission.TestCase
TestAdmission.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
