"""Whole reconciles on the pure cluster: a spec that cannot be carried out, and instances that fail."""

import copy
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.kstatus import CURRENT, FAILED, IN_PROGRESS, kstatus
from tests.unit.core.simulator import (
    CONFIG,
    Cluster,
    a_report,
    a_service,
    a_settled_cluster,
    a_spec,
    child,
    event_reasons,
    only,
)

from stoker.api import names
from stoker.core.reconcile import reconcile


class TestAnInvalidSpec:
    @pytest.mark.parametrize(
        "spec", [{}, a_spec(model={"uri": "ftp://x/y"})], ids=["empty", "unknown source"]
    )
    def test_says_so_and_takes_nothing_down(self, spec):
        cluster = a_settled_cluster(replicas=2)
        before = copy.deepcopy(cluster.children)
        cluster.service["spec"] = spec
        cluster.edit()
        cluster.settle()
        assert cluster.children == before
        assert cluster.condition("Ready") == ("False", "InvalidSpec")
        assert cluster.condition("Stalled") == ("True", "InvalidSpec")
        assert cluster.condition("RolledOut") == ("False", "InvalidSpec")
        assert cluster.condition("Available") == ("True", "Serving")
        assert cluster.message("Ready").endswith("What served before goes on with 2 of 2 Ready")
        assert cluster.status["observedGeneration"] == 2
        assert event_reasons(cluster.plans).count("InvalidSpec") == 1

    def test_children_are_kept_in_repair_meanwhile(self):
        cluster = a_settled_cluster(replicas=2)
        before = copy.deepcopy(child(cluster, "Deployment")["spec"])
        cluster.service["spec"] = {}
        cluster.edit()
        child(cluster, "Deployment")["spec"]["replicas"] = 0
        child(cluster, "Deployment")["spec"]["template"]["spec"]["containers"] = []
        cluster.settle()
        assert child(cluster, "Deployment")["spec"] == before

    def test_a_deployment_that_nobody_knows_the_template_of_is_left_as_it_is(self):
        cluster = a_settled_cluster()
        cluster.service["spec"] = {}
        cluster.edit()
        del child(cluster, "Deployment")["metadata"]["annotations"]
        assert cluster.step().actions == ()

    def test_from_the_start_makes_nothing_and_is_told_of_once(self):
        cluster = Cluster(a_service({}))
        cluster.settle()
        assert cluster.children == {}
        assert cluster.condition("Ready") == ("False", "InvalidSpec")
        assert cluster.condition("Available") == ("False", "NoReadyInstance")
        assert event_reasons(cluster.plans) == ["InvalidSpec"]

    def test_is_over_when_the_spec_is_put_right(self):
        cluster = a_settled_cluster()
        good = cluster.service["spec"]
        cluster.service["spec"] = {}
        cluster.edit()
        cluster.settle()
        cluster.service["spec"] = good
        cluster.edit()
        cluster.settle()
        assert cluster.condition("Ready") == ("True", "Serving")
        assert cluster.condition("Stalled") is None
        assert "Recovered" in event_reasons(cluster.plans)

    def test_in_the_middle_of_a_rollout_lets_the_rollout_go_on(self):
        cluster = a_settled_cluster()
        cluster.now += timedelta(minutes=1)
        cluster.edit(engine={"args": ["--x"]})
        wanted = cluster.wanted
        cluster.step()
        cluster.service["spec"] = {}
        cluster.edit()
        cluster.settle()
        assert list(cluster.deployments) == [wanted]
        assert cluster.selected == wanted


class TestKstatus:
    """What `helm --wait`, Flux and `kubectl wait` make of it."""

    def result(self, cluster):
        return kstatus(cluster.service).status

    def test_a_service_is_in_progress_until_it_serves_and_current_then(self):
        cluster = Cluster()
        cluster.step()
        assert self.result(cluster) == IN_PROGRESS
        cluster.settle()
        assert self.result(cluster) == CURRENT

    def test_a_new_revision_is_in_progress_until_it_has_taken_over(self):
        cluster = a_settled_cluster()
        cluster.edit(engine={"args": ["--x"]})
        assert self.result(cluster) == IN_PROGRESS, "the operator has not looked yet"
        cluster.step()
        assert self.result(cluster) == IN_PROGRESS
        cluster.settle()
        assert self.result(cluster) == CURRENT

    def test_scaled_to_zero_on_purpose_is_current(self):
        assert self.result(a_settled_cluster(replicas=0)) == CURRENT

    def test_a_spec_that_cannot_be_carried_out_has_failed(self):
        cluster = a_settled_cluster()
        cluster.service["spec"] = {}
        cluster.edit()
        cluster.settle()
        assert self.result(cluster) == FAILED

    def test_a_revision_that_makes_no_progress_has_failed(self):
        cluster = a_settled_cluster()
        cluster.edit(engine={"image": "broken:1"})
        cluster.never_ready.add(cluster.wanted)
        cluster.without_progress.add(cluster.wanted)
        cluster.settle()
        assert self.result(cluster) == FAILED


class TestProblems:
    def test_o5_each_pod_is_named_with_its_class_and_ready_is_honest(self):
        cluster = a_settled_cluster(scaling={"minReplicas": 3, "maxReplicas": 3})
        oom, init, healthy = sorted(cluster.pods)
        cluster.fail(oom, terminated={"exitCode": 137, "reason": "OOMKilled"})
        words = json.dumps({"reason": "WeightsForbidden", "message": "401 from the source", "fix": "Log in."})
        cluster.fail(init, container="weights", terminated={"exitCode": 1, "message": words})
        cluster.settle()
        assert cluster.status["ready"] == "1/3"
        assert cluster.condition("Ready") == ("True", "ServingBelowWanted")
        assert cluster.message("Ready") == f"1 of 3 Ready; {oom}: OutOfMemory; {init}: WeightsForbidden"
        assert cluster.condition("Available") == ("False", "ServingBelowWanted")
        assert cluster.condition("InstancesHealthy") == ("False", "OutOfMemory")
        message = cluster.message("InstancesHealthy")
        assert f"{oom} on node-1: OutOfMemory: container engine used more memory" in message
        assert f"{init} on node-1: WeightsForbidden: container weights, 3 restarts: 401 from" in message
        assert "Log in." in message
        assert healthy not in message
        states = {record["name"]: record["state"] for record in cluster.status["instances"]}
        assert states == {oom: "Failed", init: "Failed", healthy: "Serving"}

    def test_a_first_revision_that_fails_is_not_ready_for_that_reason(self):
        cluster = Cluster()
        cluster.never_ready.add(cluster.wanted)
        cluster.settle()
        words = json.dumps({"reason": "WeightsMissing", "message": "404", "fix": "Correct `model.uri`."})
        cluster.fail(only(cluster.pods), container="weights", terminated={"exitCode": 1, "message": words})
        cluster.settle()
        for type_ in ("Ready", "RolledOut", "InstancesHealthy"):
            assert cluster.condition(type_) == ("False", "WeightsMissing")
        assert cluster.condition("Available") == ("False", "NoReadyInstance")
        assert cluster.condition("Reconciling") == ("True", "WeightsMissing")
        assert event_reasons(cluster.plans).count("WeightsMissing") == 1

    def test_a_candidate_that_fails_is_told_of_while_the_old_revision_serves(self):
        cluster = a_settled_cluster()
        cluster.edit(engine={"args": ["--no-such-flag"]})
        cluster.never_ready.add(cluster.wanted)
        cluster.settle()
        words = json.dumps(
            {"reason": "BadArguments", "message": "--no-such-flag is unknown", "fix": "Remove it."}
        )
        cluster.fail(f"{cluster.wanted}-0", terminated={"exitCode": 2, "message": words})
        cluster.settle()
        assert cluster.condition("Ready") == ("True", "Serving")
        assert "BadArguments" in cluster.message("Ready")
        assert cluster.condition("RolledOut") == ("False", "BadArguments")
        assert "--no-such-flag is unknown. Remove it." in cluster.message("RolledOut")

    def test_recovery_is_told_of_once(self):
        cluster = a_settled_cluster()
        pod = only(cluster.pods)
        healthy = copy.deepcopy(cluster.pods[pod])
        cluster.fail(pod, terminated={"exitCode": 1})
        cluster.settle()
        cluster.pods[pod] = healthy
        cluster.reports[pod] = a_report(cluster.wanted)
        cluster.settle()
        assert cluster.condition("InstancesHealthy") == ("True", "Healthy")
        assert event_reasons(cluster.plans)[-2:] == ["Recovered", "Recovered"]

    def test_a_lack_of_nodes_is_no_fault_of_the_instance(self):
        cluster = a_settled_cluster(replicas=1)
        cluster.never_ready.add(cluster.wanted)
        cluster.edit(replicas=2)
        cluster.settle()
        waiting = sorted(cluster.pods)[1]
        cluster.pods[waiting]["spec"] = {}
        cluster.pods[waiting]["status"] = {
            "conditions": [
                {"type": "PodScheduled", "status": "False", "message": "3 Insufficient nvidia.com/gpu."},
                {"type": "Ready", "status": "False"},
            ]
        }
        cluster.settle()
        assert cluster.condition("CapacityAvailable") == ("False", "WaitingForNode")
        assert cluster.condition("InstancesHealthy") == ("True", "Starting")
        assert cluster.condition("Ready") == ("True", "ServingBelowWanted")
        assert cluster.condition("Reconciling") == ("True", "WaitingForNode")

    def test_an_evicted_pod_is_forgotten_once_another_is_ready_in_its_place(self):
        cluster = a_settled_cluster()
        evicted = copy.deepcopy(only(cluster.pods.values()))
        evicted["metadata"]["name"] = "evicted"
        evicted["status"] = {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}
        cluster.pods["evicted"] = evicted
        cluster.step()
        assert cluster.condition("InstancesHealthy") == ("True", "Healthy")
        assert cluster.status["replicas"] == 1

    def test_ready_pods_of_a_revision_whose_deployment_is_gone_are_left_to_the_garbage_collector(self):
        cluster = a_settled_cluster()
        ghost = copy.deepcopy(only(cluster.pods.values()))
        ghost["metadata"] |= {"name": "ghost", "labels": {names.REVISION_LABEL: "chat-00000000"}}
        observed = cluster.observe()
        plan = reconcile(replace(observed, pods=(*observed.pods, ghost)), config=CONFIG, now=cluster.now)
        assert plan.actions == ()

    def test_instances_that_start_are_not_unhealthy(self):
        cluster = a_settled_cluster(replicas=1)
        cluster.never_ready.add(cluster.wanted)
        cluster.edit(replicas=2)
        cluster.settle()
        assert cluster.condition("InstancesHealthy") == ("True", "Starting")
        assert cluster.condition("Ready") == ("True", "ServingBelowWanted")
        assert cluster.condition("Reconciling") == ("True", "ServingBelowWanted")
        assert cluster.message("InstancesHealthy") == "1 Starting"

    def test_kubernetes_own_deadline_on_a_revision_that_serves_is_stalled_too(self):
        cluster = a_settled_cluster(replicas=1)
        cluster.never_ready.add(cluster.wanted)
        cluster.without_progress.add(cluster.wanted)
        cluster.edit(replicas=2)
        cluster.settle()
        assert cluster.condition("Stalled") == ("True", "ProgressDeadlineExceeded")
        assert cluster.condition("Ready") == ("True", "ServingBelowWanted")
