"""Whole reconciles on the pure cluster: children that somebody else changed, deleted or made."""

import copy
from dataclasses import replace

import pytest
from tests.unit.core.simulator import (
    CONFIG,
    START,
    Cluster,
    a_service,
    a_settled_cluster,
    a_spec,
    child,
    event_reasons,
    only,
)

from stoker.api import names
from stoker.core.reconcile import reconcile


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
