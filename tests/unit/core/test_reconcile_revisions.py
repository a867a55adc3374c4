"""Whole reconciles on the pure cluster: a new revision takes over, and the wanted number of instances."""

from datetime import timedelta

from tests.unit.core.simulator import (
    Cluster,
    a_service,
    a_settled_cluster,
    a_spec,
    child,
    event_reasons,
    only,
    phases,
)

from stoker.api import names


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
