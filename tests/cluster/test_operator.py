"""The operator against a real API server: one process for all tests, a namespace for each."""

import uuid

import pytest
from kubernetes.aio.client import Configuration
from tests.cluster.instances import Instances
from tests.cluster.operator_process import restricted_kubeconfig, start_operator
from tests.cluster.world import REPLICA_SETS, World, eventually, the_only
from tests.kstatus import CURRENT, FAILED, IN_PROGRESS, kstatus

from stoker.api import names
from stoker.kube import access
from stoker.kube.client import Client
from stoker.kube.resources import DEPLOYMENTS, INFERENCE_SERVICES, PODS, SERVICES

REPAIR_S = 2
"""What the design allows between somebody's edit of a child and its repair."""


@pytest.fixture(scope="module")
def operator(api_server, kubectl, tmp_path_factory):
    """One operator for the whole cluster, with the rights of the chart's roles."""
    folder = tmp_path_factory.mktemp("operator")
    namespace = f"stoker-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", namespace)
    kubeconfig = restricted_kubeconfig(api_server, kubectl, folder, namespace=namespace)
    operator = start_operator(kubeconfig, folder, namespace=namespace)
    try:
        operator.wait_until_ready()
        yield operator
    finally:
        status = operator.terminate()
    assert status == 0, operator.log.read_text()


@pytest.fixture
async def client(api_server):
    configuration: Configuration = await access.load(str(api_server))
    async with Client(configuration) as client:
        yield client


@pytest.fixture
def world(operator, client, namespace):
    return World(client=client, namespace=namespace)


@pytest.fixture
async def instances(client, namespace):
    """Pods of this test's namespace become Ready and say their revision."""
    async with Instances(client, namespace).running() as instances:
        yield instances


async def test_a_service_gets_its_children_and_owns_them(world):
    service = await world.apply()
    await world.settled()
    children = await world.children()
    assert sorted(kind for kind, _ in children) == [
        "Deployment",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
    ]
    for child in children.values():
        (owner,) = child["metadata"]["ownerReferences"]
        assert owner["uid"] == service["metadata"]["uid"]
        assert owner["controller"] is True
        assert {
            entry["manager"] for entry in child["metadata"]["managedFields"] if "subresource" not in entry
        } <= {
            names.FIELD_MANAGER,
            "kube-controller-manager",
        }


async def test_a_name_that_is_no_label_gets_valid_and_unique_children(world):
    for name in ("llama-3.1-8b", "llama-3-1-8b", "a" * 60 + ".b"):
        await world.apply(name)
    for name in ("llama-3.1-8b", "llama-3-1-8b", "a" * 60 + ".b"):
        await world.settled(name)
        assert len(await world.deployments(name)) == 1
    assert len(await world.list(DEPLOYMENTS)) == 3


async def test_the_first_instance_that_is_ready_makes_the_service_ready(world, instances):
    await world.apply()
    service = await world.serving()
    assert kstatus(service).status == CURRENT
    assert service["status"]["ready"] == "1/1"
    assert "RolledOut" in {c["type"] for c in service["status"]["conditions"]}


async def test_an_edit_that_needs_no_new_pods_touches_no_pod_template(world, instances):
    await world.apply()
    await world.serving()
    (before,) = await world.deployments()
    await world.apply(queue={"maxRequests": 7}, scaling={"minReplicas": 2, "maxReplicas": 4})
    await world.serving(replicas=2)
    (after,) = await world.deployments()
    assert after["spec"]["template"] == before["spec"]["template"]
    assert len(await world.list(REPLICA_SETS)) == 1


async def test_only_new_engine_arguments_make_exactly_one_new_revision(world, instances):
    """Case O14."""
    await world.apply()
    await world.serving()
    old = await world.selected()
    deployments, pods = set(), set()
    await world.apply(engine={"args": ["--max-num-seqs", "4"]})

    async def taken_over():
        deployments.update(d["metadata"]["uid"] for d in await world.deployments())
        pods.update(p["metadata"]["uid"] for p in await world.list(PODS))
        assert await world.selected() != old
        assert len(await world.deployments()) == 1

    await eventually(taken_over, within_s=30)
    assert len(deployments) == 2, "the old Deployment and one new one, none made twice"
    assert len(pods) == 2, "one pod each, none made twice"


async def test_a_new_revision_takes_over_only_when_it_says_what_it_is(world, instances):
    await world.apply()
    await world.serving()
    old = await world.selected()
    instances.paused = True
    await world.apply(engine={"args": ["--max-num-seqs", "4"]})
    instances.says[await world.candidate(old)] = {"revision": "somebody-else"}
    instances.paused = False
    await eventually(lambda: _has_reason(world, "RolledOut", "WrongVersion"), within_s=10)
    assert await world.selected() == old
    assert (await world.condition("Ready"))["status"] == "True"


async def test_a_revision_that_never_becomes_ready_changes_nothing_for_users(world, instances):
    await world.apply(scaling={"minReplicas": 2, "maxReplicas": 2})
    await world.serving(replicas=2)
    old = await world.selected()
    (before,) = await world.deployments()
    instances.paused = True
    await world.apply(scaling={"minReplicas": 2, "maxReplicas": 2}, engine={"args": ["--max-num-seqs", "4"]})
    instances.never_ready.add(await world.candidate(old))
    instances.paused = False
    await eventually(lambda: _has_reason(world, "RolledOut", "RollingOut"), within_s=10)
    assert await world.selected() == old
    old_now = await world.get(DEPLOYMENTS, old)
    assert old_now["spec"] == before["spec"]
    assert (await world.condition("Ready"))["status"] == "True"

    # Going back to the old spec gives the candidate up at once.
    await world.apply(scaling={"minReplicas": 2, "maxReplicas": 2})

    async def given_up():
        assert [d["metadata"]["name"] for d in await world.deployments()] == [old]

    await eventually(given_up, within_s=10)


async def test_a_bad_spec_says_so_and_what_serves_goes_on(world, instances):
    await world.apply()
    await world.serving()
    (before,) = await world.deployments()
    await world.apply(model={"uri": "https://10.0.0.1/tiny", "revision": "a09a354"})

    async def told():
        stalled = await world.condition("Stalled")
        assert stalled["status"] == "True"
        return stalled

    stalled = await eventually(told, within_s=10)
    assert "model.uri" in stalled["message"]
    assert kstatus(await world.service()).status == FAILED
    (after,) = await world.deployments()
    assert after["spec"] == before["spec"]
    assert await world.selected() == before["metadata"]["name"]


async def test_what_the_cluster_refuses_is_said_on_the_object_and_tried_again(world, kubectl, namespace):
    kubectl("create", "quota", "none", "--hard=count/deployments.apps=0", "-n", namespace)
    await world.apply()

    async def told():
        stalled = await world.condition("Stalled")
        assert stalled["reason"] == "ApplyFailed"
        return stalled

    stalled = await eventually(told, within_s=10)
    assert "exceeded quota" in stalled["message"]
    assert kstatus(await world.service()).status == FAILED
    await eventually(lambda: _has_event(world, "ApplyFailed"), within_s=5)
    kubectl("delete", "quota", "none", "-n", namespace)

    async def mended():
        assert len(await world.deployments()) == 1
        assert kstatus(await world.service()).status == IN_PROGRESS

    await eventually(mended, within_s=30)


async def test_deleting_a_service_leaves_nothing_behind(world, instances, kubectl, namespace):
    """Case O13: no finalizer of ours, so that nothing can hold the deletion up."""
    await world.apply(model={"uri": "pvc://no-such-claim/tiny"})
    await world.settled()
    service = await world.service()
    assert "finalizers" not in service["metadata"]
    await world.client.delete(service)

    async def gone():
        assert await world.client.get(INFERENCE_SERVICES, namespace=namespace, name="chat") is None
        assert await world.children() == {}
        for resource in (PODS, REPLICA_SETS):
            assert await world.list(resource) == []

    await eventually(gone, within_s=30)


async def test_somebodys_edit_of_the_services_selector_is_repaired(world):
    await world.apply()
    await world.settled()
    service = await world.get(SERVICES, "chat")
    right = service["spec"]["selector"]
    await world.patch(service, spec={"selector": {names.REVISION_LABEL: "another"}})

    async def repaired():
        assert (await world.get(SERVICES, "chat"))["spec"]["selector"] == right

    await eventually(repaired, within_s=REPAIR_S)


async def test_a_deleted_deployment_is_made_again(world):
    await world.apply()
    await world.settled()
    (deployment,) = await world.deployments()
    await world.client.delete(deployment)

    async def repaired():
        made = the_only(await world.deployments())
        assert made["metadata"]["uid"] != deployment["metadata"]["uid"]
        assert made["spec"]["template"] == deployment["spec"]["template"]

    await eventually(repaired, within_s=REPAIR_S)


async def test_a_deployment_that_somebody_scaled_is_scaled_back(world):
    await world.apply()
    await world.settled()
    (deployment,) = await world.deployments()
    await world.patch(deployment, spec={"replicas": 5})

    async def repaired():
        now = the_only(await world.deployments())
        assert now["spec"]["replicas"] == 1
        assert now["metadata"]["generation"] > deployment["metadata"]["generation"]

    await eventually(repaired, within_s=REPAIR_S)
    await eventually(lambda: _has_event(world, "DriftRepaired"), within_s=5)


async def test_at_rest_nothing_is_written(operator, world, instances):
    await world.apply()
    await world.serving()
    before = await world.at_rest()
    events = await world.events()
    # A change that matters to nobody: it is looked at, and nothing comes of it.
    looked = operator.reconciles()
    kept = await world.service()
    await world.patch(kept, metadata=_name_of(kept) | {"annotations": {"a-person/note": "hello"}})

    async def looked_at():
        assert operator.reconciles() > looked

    await eventually(looked_at, within_s=10)
    after = await world.at_rest()
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {("InferenceService", "chat")}, "only the person's own write"
    assert await world.events() == events


async def test_the_same_manifest_again_changes_nothing(world, instances):
    await world.apply()
    await world.serving()
    before = await world.at_rest()
    await world.apply()
    assert await world.at_rest() == before


async def test_two_managers_of_the_spec_live_side_by_side_and_the_operator_is_none_of_them(world, instances):
    await world.apply(manager="argocd")
    service = await world.serving()
    scaled = await world.patch(service, spec={"scaling": {"minReplicas": 2, "maxReplicas": 3}})
    await world.apply(manager="argocd")
    service = await world.serving(replicas=2)
    assert service["spec"]["scaling"] == scaled["spec"]["scaling"]
    owners = {
        entry["manager"]: entry["fieldsV1"]
        for entry in service["metadata"]["managedFields"]
        if "fieldsV1" in entry
    }
    assert {manager for manager, fields in owners.items() if "f:spec" in fields} == {"argocd", "a-person"}
    assert set(owners[names.STATUS_FIELD_MANAGER]) == {"f:status"}


async def _has_reason(world, type_, reason):
    condition = await world.condition(type_)
    assert condition["reason"] == reason, condition


async def _has_event(world, reason):
    assert reason in await world.events()


def _name_of(obj):
    return {key: obj["metadata"][key] for key in ("namespace", "name")}
