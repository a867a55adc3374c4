"""What holds whatever users, nodes and pods do, in whatever order."""

from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.unit.core.simulator import Cluster, a_report, a_service, a_spec

from stoker.api import names

IMAGES = st.sampled_from(["a:1", "b:1", "c:1", "never-ready:1", "silent:1"])
LOOKS = st.lists(st.sampled_from([0, 1, 10]), max_size=4)
"""Seconds to wait before each look."""


class Edits(RuleBasedStateMachine):
    """A service that is edited, looked at and disturbed at random."""

    @initialize(replicas=st.integers(1, 3))
    def make(self, replicas):
        self.cluster = Cluster(a_service(a_spec(replicas=replicas, engine={"image": "a:1"})))
        self.cluster.settle()

    @rule(image=IMAGES, looks=LOOKS)
    def change_what_runs(self, image, looks):
        """An edit that needs new pods; the name of the image says how they will do."""
        self.cluster.edit(scaling={}, engine={"image": image})
        if image == "never-ready:1":
            self.cluster.never_ready.add(self.cluster.wanted)
        if image == "silent:1":
            self.cluster.silent.add(self.cluster.wanted)
        self._look(looks)

    @rule(replicas=st.integers(0, 3), looks=LOOKS)
    def pin(self, replicas, looks):
        self.cluster.edit(replicas=replicas)
        self._look(looks)

    @rule()
    def write_nonsense(self):
        """An edit that the CRD should have refused."""
        self.cluster.edit(scaling={"minReplicas": "many"})

    @rule(looks=LOOKS)
    def look(self, looks):
        self._look(looks)

    @rule(data=st.data())
    @precondition(lambda self: self.cluster.pods)
    def crash(self, data):
        self.cluster.fail(data.draw(st.sampled_from(sorted(self.cluster.pods))), terminated={"exitCode": 1})

    @rule(data=st.data())
    @precondition(lambda self: self.cluster.pods)
    def lie(self, data):
        """An instance says that it is something else."""
        pod = data.draw(st.sampled_from(sorted(self.cluster.pods)))
        self.cluster.reports[pod] = a_report("somebody-else")

    @rule(data=st.data())
    @precondition(lambda self: self.cluster.children)
    def delete_a_child(self, data):
        key = data.draw(st.sampled_from(sorted(self.cluster.children)))
        del self.cluster.children[key]
        self.cluster.move_on()

    @rule(revision=st.sampled_from(["chat-00000000", ""]))
    def tamper_with_the_service(self, revision):
        if live := self.cluster.children.get(("Service", "chat")):
            live["spec"]["selector"][names.REVISION_LABEL] = revision

    @rule()
    def forget(self):
        """Somebody wipes the status."""
        self.cluster.service.pop("status", None)

    def teardown(self):
        """However it went: with a good spec and well pods one Deployment serves, and all is still."""
        cluster = self.cluster
        cluster.now += timedelta(minutes=1)
        cluster.edit(scaling={}, engine={"image": "final:1"}, replicas=2)
        cluster.settle()
        assert list(cluster.deployments) == [cluster.wanted]
        assert cluster.selected == cluster.wanted
        assert cluster.condition("Ready") == ("True", "Serving")
        status = cluster.status
        for _ in range(2):
            plan = cluster.step()
            assert (plan.actions, plan.events, plan.status) == ((), (), status)

    def _look(self, waits_s):
        """Reconciles: what serves keeps its size, and traffic never goes where nothing is Ready."""
        for wait_s in waits_s:
            served, ready_before = self._served(), self._ready()
            size = self._sizes().get(served)
            self.cluster.now += timedelta(seconds=wait_s)
            plan = self.cluster.step()
            self._check_traffic(served, ready_before)
            if size is not None and served == self._served():
                wanted = plan.status["scaling"]["desired"]
                assert self._sizes()[served] >= min(size, wanted), "an edit lowered what serves"

    def _served(self):
        records = self.cluster.status.get("revisions", [])
        return next((record["name"] for record in records if record["phase"] == "Serving"), None)

    def _sizes(self):
        return {name: live["spec"]["replicas"] for name, live in self.cluster.deployments.items()}

    def _ready(self):
        ready = {}
        for pod in self.cluster.pods.values():
            revision = pod["metadata"]["labels"][names.REVISION_LABEL]
            ready[revision] = ready.get(revision, 0) + (pod["status"]["conditions"][1]["status"] == "True")
        return ready

    def _check_traffic(self, served, ready_before):
        if not ready_before.get(served) or self.cluster.selected == served:
            return
        moved_well = ready_before.get(self.cluster.selected) or self.cluster.status["scaling"]["desired"] == 0
        assert moved_well, "traffic left Ready instances for a revision that has none"


Edits.TestCase.settings = settings(max_examples=50, stateful_step_count=12)
test_edits = Edits.TestCase
