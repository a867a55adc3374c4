"""A request that remembers what the queue did with it, and a queue."""

from stoker.gateway.admission import ServiceQueue
from stoker.gateway.instances import Evidence, Instance
from stoker.gateway.routing import Router


class Waiter:
    def __init__(self, name="", *, priority=0, workload="w", tokens=0, prefix_key=None, session_key=None):
        self.name = name
        self.priority = priority
        self.workload = workload
        self.tokens = tokens
        self.prefix_key = prefix_key
        self.session_key = session_key
        self.excluded = []
        self.deadline_s = None
        self.now_s = 0.0
        self.instance = None
        self.ticket = None
        self.outcomes = []

    def __repr__(self):
        return f"Waiter({self.name})"

    def start(self, instance):
        self.outcomes.append("started")
        self.instance = instance
        self.ticket = instance.acquire(self.now_s)

    def refuse(self, rejection):
        self.outcomes.append(rejection)

    def release(self, evidence=Evidence.ANSWERED, now_s=0.0):
        self.instance.release(self.ticket, evidence, now_s)

    @property
    def waits(self):
        return not self.outcomes

    @property
    def code(self):
        return self.outcomes[-1].code.value if not self.waits else None


def an_instance(name="a", *, limit=2, revision="r1", ready_since_s=float("-inf")):
    instance = Instance(
        name=name, host="10.0.0.1", port=8000, revision=revision, model_version="v", limit=limit
    )
    instance.begin(ready_since_s)
    return instance


class Queue(ServiceQueue):
    """A queue with its instances and what woke it, for tests."""

    def __init__(self, *instances, max_requests=10, max_wait_s=30.0, **facts):
        self.router = Router(draw=lambda: 0.0)
        self.woken = 0
        super().__init__(name="demo/chat", router=self.router, draw=lambda: 0.0, on_wake=self.wake)
        self.max_requests = max_requests
        self.max_wait_s = max_wait_s
        for name, value in facts.items():
            setattr(self, name, value)
        self.router.set(instances, {})

    def wake(self):
        self.woken += 1

    def set(self, *instances, now_s=0.0):
        self.router.set(instances, {})
        self.pump(now_s)

    def offered(self, name="", now_s=0.0, **fields):
        waiter = Waiter(name, **fields)
        self.offer(waiter, now_s)
        return waiter

    def release(self, waiter, now_s=0.0):
        waiter.release(now_s=now_s)
        self.finished(now_s)
