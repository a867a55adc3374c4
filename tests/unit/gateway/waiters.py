"""A request that remembers what the queue did with it."""

from stoker.gateway.instances import Evidence, Instance


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
