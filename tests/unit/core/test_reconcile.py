"""Whole reconciles on the pure cluster: a new service, one at rest, and one whose operator was restarted."""

import copy
import json
from dataclasses import replace
from datetime import timedelta

from tests.unit.core.simulator import (
    CONFIG,
    START,
    Cluster,
    a_service,
    a_settled_cluster,
    a_spec,
    event_reasons,
    only,
)

from stoker.api.v1alpha1 import InferenceService
from stoker.core.reconcile import reconcile


class TestANewService:
    def test_gets_its_children_in_one_plan(self):
        plan = Cluster().step()
        kinds = [action.object["kind"] for action in plan.actions]
        assert kinds == ["ServiceAccount", "Deployment", "Service", "PodDisruptionBudget"]
        assert all(action.reason == "it is not there" for action in plan.actions)

    def test_says_at_once_that_it_starts(self):
        cluster = Cluster(a_service(a_spec(replicas=2)))
        plan = cluster.step()
        assert plan.status["observedGeneration"] == 1
        assert plan.status["ready"] == "0/2"
        assert cluster.condition("Ready") == ("False", "Starting")
        assert cluster.condition("Reconciling") == ("True", "RollingOut")
        assert event_reasons([plan]) == ["RevisionCreated"]

    def test_becomes_ready_and_says_what_it_serves(self):
        cluster = a_settled_cluster(replicas=2)
        revision = only(cluster.deployments)
        status = cluster.status
        assert cluster.condition("Ready") == ("True", "Serving")
        assert cluster.condition("Available") == ("True", "Serving")
        assert cluster.condition("RolledOut") == ("True", "UpToDate")
        assert cluster.condition("InstancesHealthy") == ("True", "Healthy")
        assert cluster.condition("CapacityAvailable") == ("True", "Sufficient")
        assert cluster.condition("ScalingActive") == ("False", "Pinned")
        assert cluster.condition("Reconciling") is None
        assert cluster.condition("Stalled") is None
        assert (status["ready"], status["replicas"], status["readyReplicas"]) == ("2/2", 2, 2)
        assert status["url"] == "http://chat.prod.svc/v1"
        assert status["modelVersion"] == "a09a354"
        assert status["selector"] == f"serving.stoker.dev/revision={revision},serving.stoker.dev/service=chat"
        assert status["traffic"] == [{"revision": revision, "weight": 100}]
        assert [decision["desired"] for decision in status["scaling"]["decisions"]] == [2]

    def test_is_left_alone_when_it_is_being_deleted(self):
        cluster = a_settled_cluster()
        cluster.service["metadata"]["deletionTimestamp"] = "2026-12-01T09:00:00Z"
        plan = reconcile(cluster.observe(), config=CONFIG, now=cluster.now)
        assert (plan.actions, plan.events, plan.status) == ((), (), cluster.status)

    def test_o13_is_deleted_by_its_owner_references_alone(self):
        cluster = a_settled_cluster()
        assert "finalizers" not in cluster.service["metadata"]
        for live in cluster.children.values():
            assert "finalizers" not in live["metadata"]
            assert only(live["metadata"]["ownerReferences"])["blockOwnerDeletion"] is False


class TestAtRest:
    def test_two_more_looks_write_nothing_and_say_the_same(self):
        cluster = a_settled_cluster(replicas=3)
        for _ in range(2):
            before = copy.deepcopy(cluster.status)
            cluster.now += timedelta(hours=1)
            plan = cluster.step()
            assert (plan.actions, plan.events, plan.requeue_after_s) == ((), (), None)
            assert plan.status == before

    def test_the_status_is_one_that_the_api_declares(self):
        cluster = a_settled_cluster(replicas=2)
        cluster.edit(engine={"args": ["--x"]})
        cluster.never_ready.add(cluster.wanted)
        cluster.settle()
        status = InferenceService.model_validate(cluster.service).status
        told = json.loads(status.model_dump_json(by_alias=True, exclude_unset=True))
        assert told == cluster.status

    def test_the_same_input_gives_the_same_plan(self):
        cluster = Cluster()
        first, second = (reconcile(cluster.observe(), config=CONFIG, now=START) for _ in range(2))
        assert first == second

    def test_a_plan_changes_nothing_of_what_it_was_made_from(self):
        cluster = a_settled_cluster()
        cluster.edit(engine={"args": ["--x"]})
        observed = cluster.observe()
        before = copy.deepcopy(observed)
        reconcile(observed, config=CONFIG, now=cluster.now)
        assert observed == before


class TestO11:
    def test_a_change_that_needs_no_pods_writes_no_deployment_and_observes_the_generation(self):
        cluster = a_settled_cluster()
        cluster.edit(queue={"maxRequests": 7})
        plan = cluster.step()
        assert plan.actions == ()
        assert plan.status["observedGeneration"] == 2
        assert {condition["observedGeneration"] for condition in plan.status["conditions"]} == {2}

    def test_an_upgrade_of_the_operator_restarts_no_pod(self):
        cluster = a_settled_cluster(replicas=2)
        templates = {name: live["spec"]["template"] for name, live in cluster.deployments.items()}
        cluster.config = replace(CONFIG, stoker_image="stoker:2", serving_image="stoker-serving:2")
        plan = cluster.settle()
        assert plan.actions == ()
        assert {name: live["spec"]["template"] for name, live in cluster.deployments.items()} == templates

    def test_a_new_revision_after_the_upgrade_has_the_new_images(self):
        cluster = a_settled_cluster()
        cluster.config = replace(CONFIG, serving_image="stoker-serving:2")
        cluster.edit(engine={"args": ["--x"]})
        cluster.settle()
        container = only(only(cluster.deployments.values())["spec"]["template"]["spec"]["containers"])
        assert container["image"] == "stoker-serving:2"

    def test_a_new_setting_outside_the_pods_is_applied_to_what_is_there(self):
        cluster = a_settled_cluster()
        cluster.config = replace(CONFIG, progress_deadline_s=900.0)
        action = only(cluster.step().actions)
        assert action.object["spec"]["progressDeadlineSeconds"] == 900
        assert action.reason == "`spec.progressDeadlineSeconds` is to change"

    def test_counts_do_not_double_when_the_operator_forgets_everything(self):
        cluster = a_settled_cluster(replicas=2)
        del cluster.service["status"]
        cluster.settle()
        assert (cluster.status["replicas"], cluster.status["ready"]) == (2, "2/2")
        assert len(cluster.status["revisions"]) == 1
        assert cluster.condition("RolledOut") == ("True", "UpToDate")

    def test_a_status_that_only_has_the_default_of_the_crd_is_a_new_one(self):
        cluster = Cluster(a_service() | {"status": {"observedGeneration": -1}})
        cluster.settle()
        assert cluster.condition("Ready") == ("True", "Serving")
