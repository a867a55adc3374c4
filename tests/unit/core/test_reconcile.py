"""Whole reconciles on the pure cluster: what a user, a drain or a fault does, and what comes of it."""

import copy
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.kstatus import CURRENT, FAILED, IN_PROGRESS, kstatus
from tests.unit.core.simulator import CONFIG, START, Cluster, a_report, a_service, a_spec

from stoker.api import names
from stoker.api.v1alpha1 import InferenceService
from stoker.core.reconcile import reconcile

CHILDREN = [
    ("Deployment", None),
    ("Service", "chat"),
    ("PodDisruptionBudget", "chat"),
    ("ServiceAccount", "chat"),
]


def a_settled_cluster(**fields):
    cluster = Cluster(a_service(a_spec(**fields)))
    cluster.settle()
    return cluster


def only(things):
    (thing,) = things
    return thing


def child(cluster, kind):
    return only(value for (its_kind, _), value in cluster.children.items() if its_kind == kind)


def phases(cluster):
    return {record["name"]: record["phase"] for record in cluster.status["revisions"]}


def event_reasons(plans):
    return [event.reason for plan in plans for event in plan.events]


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
        assert status["url"] == "http://chat.prod.svc"
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


class TestANewRevision:
    def test_takes_over_when_it_is_whole_and_then_the_old_one_leaves(self):
        cluster = a_settled_cluster(replicas=3)
        old = only(cluster.deployments)
        cluster.edit(engine={"args": ["--max-num-seqs", "8"]})
        cluster.step()
        new = only(set(cluster.deployments) - {old})
        assert cluster.deployments[new]["spec"]["replicas"] == 1
        assert cluster.selected == old
        cluster.settle()
        assert list(cluster.deployments) == [new]
        assert cluster.deployments[new]["spec"]["replicas"] == 3
        assert cluster.selected == new
        assert phases(cluster) == {new: "Serving", old: "Retired"}
        assert event_reasons(cluster.plans) == [
            *("RevisionCreated", "RevisionServing"),
            *("RevisionCreated", "RevisionServing", "RevisionRemoved"),
        ]

    def test_the_budget_of_node_drains_follows_the_revision_that_serves(self):
        cluster = a_settled_cluster()
        cluster.edit(engine={"args": ["--x"]})
        cluster.settle()
        budget = child(cluster, "PodDisruptionBudget")
        assert budget["spec"]["selector"]["matchLabels"][names.REVISION_LABEL] == cluster.selected

    def test_o2_one_that_is_never_ready_changes_nothing_for_users(self):
        cluster = a_settled_cluster(replicas=2)
        old = only(cluster.deployments)
        cluster.edit(engine={"image": "broken:1"})
        cluster.never_ready.add(cluster.wanted)
        cluster.settle()
        assert cluster.selected == old
        assert cluster.deployments[old]["spec"]["replicas"] == 2
        assert cluster.condition("Ready") == ("True", "Serving")
        assert cluster.condition("RolledOut") == ("False", "RollingOut")
        assert cluster.condition("Reconciling") == ("True", "RollingOut")
        assert "has 0 of 2 Ready" in cluster.message("Ready")

    def test_one_that_makes_no_progress_is_stalled_and_goes_on_trying(self):
        cluster = a_settled_cluster()
        cluster.edit(engine={"image": "broken:1"})
        cluster.never_ready.add(cluster.wanted)
        cluster.without_progress.add(cluster.wanted)
        cluster.settle()
        assert cluster.condition("Stalled") == ("True", "ProgressDeadlineExceeded")
        assert cluster.condition("RolledOut") == ("False", "ProgressDeadlineExceeded")
        assert cluster.condition("Reconciling") is None
        assert cluster.condition("Ready") == ("True", "Serving")
        assert cluster.wanted in cluster.deployments
        assert event_reasons(cluster.plans).count("ProgressDeadlineExceeded") == 1

    def test_one_that_says_nothing_of_itself_never_takes_over(self):
        cluster = a_settled_cluster()
        old = only(cluster.deployments)
        cluster.edit(engine={"args": ["--x"]})
        cluster.silent.add(cluster.wanted)
        cluster.settle()
        assert cluster.selected == old
        assert cluster.condition("RolledOut") == ("False", "Verifying")

    def test_one_with_other_weights_than_asked_for_never_takes_over(self):
        cluster = a_settled_cluster()
        old = only(cluster.deployments)
        cluster.edit(model={"uri": "hf://Qwen/Qwen2.5-7B-Instruct", "sha256": "cd" * 32})
        cluster.settle()
        assert cluster.selected == old
        assert cluster.condition("RolledOut") == ("False", "WrongVersion")
        assert "not sha256:cdcd" in cluster.message("RolledOut")

    def test_a_newer_spec_replaces_a_candidate_at_once(self):
        cluster = a_settled_cluster()
        old = only(cluster.deployments)
        cluster.edit(engine={"image": "broken:1"})
        cluster.never_ready.add(broken := cluster.wanted)
        cluster.settle()
        cluster.edit(engine={"image": "good:1"})
        cluster.step()
        assert set(cluster.deployments) == {old, cluster.wanted}
        cluster.settle()
        assert phases(cluster) == {cluster.wanted: "Serving", broken: "Retired", old: "Retired"}
        outcomes = {record["name"]: record["outcome"] for record in cluster.status["revisions"]}
        assert (outcomes[broken], outcomes[old]) == ("Superseded", "Promoted")

    def test_going_back_to_the_old_spec_deletes_the_candidate_at_once(self):
        cluster = a_settled_cluster()
        old = only(cluster.deployments)
        cluster.edit(engine={"image": "broken:1"})
        cluster.never_ready.add(cluster.wanted)
        cluster.settle()
        cluster.edit(engine={})
        cluster.step()
        assert list(cluster.deployments) == [old]
        cluster.settle()
        assert cluster.condition("RolledOut") == ("True", "UpToDate")

    def test_o14_a_change_of_engine_arguments_makes_exactly_one_revision_and_its_pods_once(self):
        cluster = a_settled_cluster(replicas=2)
        cluster.edit(engine={"args": ["--max-num-seqs", "8"]})
        made = []
        for _ in range(12):
            before = set(cluster.pods)
            cluster.step()
            cluster.now += timedelta(seconds=5)
            made += sorted(set(cluster.pods) - before)
        assert made == [f"{cluster.wanted}-0", f"{cluster.wanted}-1"]
        assert len(cluster.status["revisions"]) == 2

    def test_o1_live_replicas_are_carried_forward_when_no_decision_is_remembered(self):
        cluster = a_settled_cluster(replicas=5)
        cluster.service["spec"] = a_spec(scaling={"minReplicas": 1, "maxReplicas": 10})
        del cluster.service["status"]["scaling"]
        cluster.edit(engine={"env": [{"name": "A", "value": "1"}]})
        old = only(cluster.deployments)
        while old in cluster.deployments:
            assert cluster.deployments[old]["spec"]["replicas"] == 5
            cluster.step()
            cluster.now += timedelta(seconds=2)
        assert only(cluster.deployments.values())["spec"]["replicas"] == 5

    def test_a_first_revision_that_never_served_makes_room_for_the_next_at_once(self):
        cluster = Cluster(a_service(a_spec(engine={"image": "broken:1"}, replicas=2)))
        cluster.never_ready.add(cluster.wanted)
        cluster.settle()
        cluster.edit(engine={"image": "good:1"})
        cluster.step()
        assert list(cluster.deployments) == [cluster.wanted]
        assert only(cluster.deployments.values())["spec"]["replicas"] == 2

    def test_one_good_instance_is_enough_where_the_old_revision_has_none_left(self):
        cluster = a_settled_cluster(replicas=2)
        old = only(cluster.deployments)
        for pod in list(cluster.pods):
            cluster.fail(pod, terminated={"exitCode": 1})
        cluster.edit(engine={"image": "good:1"})
        cluster.settle()
        assert old not in cluster.deployments
        assert cluster.selected == cluster.wanted


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


class TestReplicas:
    def test_a_pin_is_followed_up_and_down(self):
        cluster = a_settled_cluster(replicas=3)
        cluster.edit(replicas=1)
        cluster.settle()
        assert only(cluster.deployments.values())["spec"]["replicas"] == 1
        assert event_reasons(cluster.plans)[-1] == "Scaled"
        assert [decision["desired"] for decision in cluster.status["scaling"]["decisions"]] == [1, 3]

    def test_zero_on_purpose_is_ready(self):
        cluster = a_settled_cluster(replicas=0)
        assert cluster.condition("Ready") == ("True", "ScaledToZero")
        assert cluster.condition("Available") == ("True", "ScaledToZero")
        assert cluster.condition("Reconciling") is None
        assert cluster.status["ready"] == "0/0"

    def test_at_zero_a_new_revision_takes_over_without_an_instance(self):
        cluster = a_settled_cluster(replicas=0)
        cluster.edit(engine={"args": ["--x"]})
        cluster.settle()
        assert list(cluster.deployments) == [cluster.wanted]
        assert cluster.condition("RolledOut") == ("True", "UpToDate")

    def test_without_a_pin_the_number_stays_when_the_pin_goes(self):
        cluster = a_settled_cluster(replicas=4)
        cluster.service["spec"] = a_spec(scaling={"minReplicas": 1, "maxReplicas": 10})
        cluster.edit()
        cluster.settle()
        assert only(cluster.deployments.values())["spec"]["replicas"] == 4
        assert cluster.condition("ScalingActive") == ("False", "NoSignal")

    def test_availability_is_about_the_fewest_and_not_about_what_is_wanted(self):
        cluster = a_settled_cluster(scaling={"minReplicas": 1, "maxReplicas": 5})
        cluster.edit(replicas=3)
        cluster.settle()
        cluster.fail(sorted(cluster.pods)[0], terminated={"exitCode": 1})
        cluster.service["spec"].pop("replicas")
        cluster.settle()
        assert cluster.condition("Available") == ("True", "Serving")
        cluster.edit(scaling={"minReplicas": 3, "maxReplicas": 5})
        cluster.settle()
        assert cluster.condition("Available") == ("False", "ServingBelowWanted")


class TestDrift:
    @pytest.mark.parametrize("kind", ["Deployment", "Service", "PodDisruptionBudget", "ServiceAccount"])
    def test_a_child_that_somebody_deletes_comes_back(self, kind):
        cluster = a_settled_cluster(replicas=2)
        before = copy.deepcopy(child(cluster, kind)["metadata"]["labels"])
        del cluster.children[kind, child(cluster, kind)["metadata"]["name"]]
        cluster.settle()
        assert child(cluster, kind)["metadata"]["labels"] == before

    @pytest.mark.parametrize(
        ("kind", "change"),
        [
            pytest.param("Deployment", lambda live: live["spec"].update(replicas=9), id="replicas"),
            pytest.param(
                "Deployment",
                lambda live: live["spec"]["template"]["spec"]["containers"][0].update(image="evil:1"),
                id="image",
            ),
            pytest.param(
                "Deployment",
                lambda live: live["spec"]["template"]["metadata"]["labels"].pop(names.SERVICE_LABEL),
                id="a label of the pods",
            ),
            pytest.param("Deployment", lambda live: live["metadata"].update(labels={}), id="its labels"),
            pytest.param("Service", lambda live: live["spec"].update(selector={"app": "x"}), id="selector"),
            pytest.param("Service", lambda live: live["spec"].pop("selector"), id="no selector"),
            pytest.param(
                "Service", lambda live: live["spec"]["selector"].update(extra="x"), id="a selector too narrow"
            ),
            pytest.param("Service", lambda live: live["metadata"].update(ownerReferences=[]), id="its owner"),
            pytest.param(
                "PodDisruptionBudget", lambda live: live["spec"].update(maxUnavailable=3), id="the budget"
            ),
            pytest.param(
                "ServiceAccount",
                lambda live: live.update(automountServiceAccountToken=True),
                id="a token for the account",
            ),
        ],
    )
    def test_a_child_that_somebody_edits_is_put_back(self, kind, change):
        cluster = a_settled_cluster(replicas=2)
        before = copy.deepcopy(child(cluster, kind))
        change(child(cluster, kind))
        plan = cluster.step()
        assert only(plan.actions).object["kind"] == kind
        after = child(cluster, kind)
        assert (after.get("spec"), after["metadata"]["labels"]) == (
            before.get("spec"),
            before["metadata"]["labels"],
        )
        assert event_reasons([plan]) == ["DriftRepaired"]
        cluster.settle()

    def test_a_broken_memory_of_the_pod_template_is_made_anew_from_the_spec(self):
        cluster = a_settled_cluster()
        before = copy.deepcopy(child(cluster, "Deployment")["spec"])
        child(cluster, "Deployment")["metadata"]["annotations"][names.TEMPLATE_ANNOTATION] = "{}"
        cluster.settle()
        assert child(cluster, "Deployment")["spec"] == before

    def test_a_service_that_somebody_pointed_at_a_candidate_goes_back_to_what_serves(self):
        cluster = a_settled_cluster()
        old = only(cluster.deployments)
        cluster.edit(engine={"image": "broken:1"})
        cluster.never_ready.add(cluster.wanted)
        cluster.settle()
        child(cluster, "Service")["spec"]["selector"][names.REVISION_LABEL] = cluster.wanted
        cluster.step()
        assert cluster.selected == old


class TestNames:
    @pytest.mark.parametrize(
        ("kind", "field"),
        [
            ("Service", "services"),
            ("ServiceAccount", "service_accounts"),
            ("PodDisruptionBudget", "disruption_budgets"),
        ],
    )
    def test_an_object_of_somebody_else_is_left_alone_and_named(self, kind, field):
        cluster = Cluster()
        foreign = {"kind": kind, "metadata": {"name": "chat", "uid": "x", "labels": {}}, "spec": {}}
        observed = replace(cluster.observe(), **{field: (foreign,)})
        plan = reconcile(observed, config=CONFIG, now=START)
        assert plan.actions == ()
        ready = plan.status["conditions"][0]
        assert (ready["status"], ready["reason"]) == ("False", "NameTaken")
        assert ready["message"].startswith(f"a {kind} `chat` that Stoker did not make exists")
        assert event_reasons([plan]) == ["NameTaken"]
        assert plan.requeue_after_s == 30.0

    def test_what_serves_goes_on_when_somebody_puts_an_object_in_the_place_of_a_child(self):
        cluster = a_settled_cluster()
        live = child(cluster, "PodDisruptionBudget")
        live["metadata"] |= {"uid": "x", "labels": {}, "ownerReferences": []}
        plan = cluster.step()
        assert (plan.actions, plan.requeue_after_s) == ((), 30.0)
        assert cluster.condition("Ready") == ("False", "NameTaken")
        assert cluster.condition("Available") == ("True", "Serving")

    def test_children_of_a_deleted_service_of_the_same_name_are_waited_for(self):
        former = a_settled_cluster()
        cluster = Cluster(a_service(uid="uid-2"))
        cluster.children = copy.deepcopy(former.children)
        plan = cluster.step()
        assert plan.actions == ()
        assert plan.requeue_after_s == 2.0
        assert cluster.condition("Ready") == ("False", "Starting")
        cluster.children.clear()
        cluster.pods.clear()
        cluster.settle()
        assert cluster.condition("Ready") == ("True", "Serving")

    def test_orphaned_children_are_taken_back_without_a_restart(self):
        former = a_settled_cluster(replicas=2)
        cluster = Cluster(a_service(a_spec(replicas=2), uid="uid-2"))
        cluster.children, cluster.pods, cluster.reports = former.children, former.pods, former.reports
        for live in cluster.children.values():
            del live["metadata"]["ownerReferences"]
        pods = copy.deepcopy(cluster.pods)
        cluster.settle()
        assert cluster.pods == pods
        assert child(cluster, "Service")["metadata"]["ownerReferences"][0]["uid"] == "uid-2"

    @pytest.mark.parametrize("name", ["Llama-3.1".lower(), "9b", "x" * 60, "a.b", "chat-5f3a9c01"])
    def test_o18_any_name_has_valid_children(self, name):
        cluster = Cluster(a_service(name=name))
        cluster.settle()
        assert cluster.condition("Ready") == ("True", "Serving")
        for live in cluster.children.values():
            assert len(live["metadata"]["name"]) <= 63
            assert set(live["metadata"]["name"]) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


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
