import pytest
from tests.unit.core.simulator import Cluster, a_service, a_spec


def revisions(cluster):
    return {record["name"]: record["phase"] for record in cluster.status["revisions"]}


def test_a_new_service_gets_its_children_in_one_plan():
    cluster = Cluster()
    plan = cluster.step()
    assert [action.object["kind"] for action in plan.actions] == [
        "ServiceAccount",
        "Deployment",
        "Service",
        "PodDisruptionBudget",
    ]
    cluster.settle()
    assert cluster.condition("Ready") == ("True", "Serving")
    assert cluster.condition("RolledOut") == ("True", "UpToDate")
    assert cluster.condition("Reconciling") is None
    assert cluster.status["ready"] == "1/1"
    assert cluster.status["url"] == "http://chat.prod.svc"
    assert cluster.status["modelVersion"] == "a09a354"


def test_a_settled_service_needs_no_write():
    cluster = Cluster()
    cluster.settle()
    for _ in range(2):
        status = cluster.status
        plan = cluster.step()
        assert plan.actions == ()
        assert plan.events == ()
        assert plan.status == status


def test_a_new_revision_takes_over_when_it_is_whole_and_then_the_old_one_leaves():
    cluster = Cluster(a_service(a_spec(replicas=3)))
    cluster.settle()
    (old,) = cluster.deployments
    cluster.edit(engine={"args": ["--max-num-seqs", "8"]})
    cluster.step()
    (new,) = set(cluster.deployments) - {old}
    assert cluster.deployments[new]["spec"]["replicas"] == 1
    assert cluster.selected == old
    cluster.settle()
    assert list(cluster.deployments) == [new]
    assert cluster.deployments[new]["spec"]["replicas"] == 3
    assert cluster.selected == new
    assert revisions(cluster) == {new: "Serving", old: "Retired"}


def test_a_candidate_that_never_becomes_ready_changes_nothing_for_users():
    cluster = Cluster(a_service(a_spec(replicas=2)))
    cluster.settle()
    (old,) = cluster.deployments
    cluster.edit(engine={"image": "broken:1"})
    cluster.never_ready.update({revision_wanted(cluster)})
    cluster.settle()
    assert cluster.selected == old
    assert cluster.deployments[old]["spec"]["replicas"] == 2
    assert cluster.condition("Ready") == ("True", "Serving")
    assert cluster.condition("RolledOut") == ("False", "RollingOut")
    assert cluster.condition("Reconciling") == ("True", "RollingOut")


def revision_wanted(cluster):
    from stoker.api.spec import InferenceServiceSpec
    from stoker.core.revision import name_revision

    spec = InferenceServiceSpec.model_validate(cluster.service["spec"])
    return name_revision(spec, service_name=cluster.service["metadata"]["name"])


@pytest.mark.parametrize("spec", [{}, {"model": {"uri": "ftp://x/y"}, "accelerator": {"type": "cpu"}}])
def test_an_invalid_spec_says_so_and_takes_nothing_down(spec):
    cluster = Cluster()
    cluster.settle()
    before = cluster.deployments
    cluster.service["spec"] = spec
    cluster.service["metadata"]["generation"] += 1
    cluster.settle()
    assert cluster.deployments == before
    assert cluster.condition("Ready") == ("False", "InvalidSpec")
    assert cluster.condition("Available") == ("True", "Serving")
    assert cluster.status["observedGeneration"] == 2
