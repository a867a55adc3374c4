"""The release and a running operator together: neither takes anything from the other.

The operator runs beside the API server, as pods do not run there, but as the service account of the
chart, with the roles and the settings of the chart.
"""

import pytest
import yaml
from tests.chart.cluster import CRDS, USERS, eventually
from tests.chart.helm import CHART, NAMESPACE, container_of
from tests.cluster.operator_process import start_operator

CHAT = {
    "apiVersion": "serving.stoker.dev/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"name": "chat", "namespace": USERS},
    "spec": {"model": {"uri": "pvc://weights/tiny"}, "accelerator": {"type": "cpu"}},
}
FLEET = {
    ("Deployment", USERS),
    ("ReplicaSet", USERS),
    ("Pod", USERS),
    ("Service", USERS),
    ("PodDisruptionBudget", USERS),
    ("ServiceAccount", USERS),
    ("InferenceService", USERS),
}


@pytest.fixture
def cluster(api_server):
    with api_server.borrowed():
        yield api_server
        api_server.kubectl("delete", "infer", "--all", "-n", USERS, "--ignore-not-found")


@pytest.fixture
def helm(helm, cluster):
    return helm.on(cluster.layout.kubeconfig)


@pytest.fixture
def operator(helm, cluster, tmp_path):
    """The chart installed, and an operator that leads."""
    helm("install", "stoker", str(CHART), "--namespace", NAMESPACE)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", *CRDS)
    config = yaml.safe_load(cluster.layout.kubeconfig.read_text())
    token = cluster.kubectl("create", "token", "stoker-operator", "-n", NAMESPACE)
    config["users"] = [{"name": config["contexts"][0]["context"]["user"], "user": {"token": token}}]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))

    container = container_of(helm.template(), "operator")
    settings = {v["name"].removeprefix("STOKER_"): v["value"] for v in container["env"]}
    operator = start_operator(kubeconfig, tmp_path, namespace=NAMESPACE, **settings)
    try:
        operator.wait_until_ready()
        eventually(operator.leads, True)
        yield operator
    finally:
        operator.kill()


@pytest.fixture
def fleet(operator, cluster):
    """A service with all its children, and an operator with nothing more to do."""
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=CHAT)
    eventually(lambda: {kind_and_namespace(name) for name in cluster.everything()} >= FLEET, True)
    eventually(operator.is_idle, True)


def kind_and_namespace(name):
    return tuple(name.split()[:2])


def test_an_upgrade_disturbs_neither_the_fleet_nor_the_lease(operator, fleet, helm, cluster):
    before = cluster.settled()
    writes = operator.writes()
    helm("upgrade", "stoker", str(CHART), "--namespace", NAMESPACE)
    after = cluster.everything()
    changed = {name.split()[0] for name in after if after[name] != before.get(name)}
    assert changed <= {"Lease", "Secret"}
    assert operator.leads()
    assert operator.writes() == writes


def test_uninstall_under_a_running_operator_leaves_crds_and_the_fleet(operator, fleet, helm, cluster):
    before = cluster.everything()
    helm("uninstall", "stoker", "--namespace", NAMESPACE, "--wait")
    assert operator.terminate() is not None

    def left_of_ours():
        return {name.split()[0] for name in cluster.everything() if f" {NAMESPACE} " in name}

    # What every namespace has; the controllers take a moment to end the pods.
    eventually(left_of_ours, {"ServiceAccount", "ConfigMap"})
    after = cluster.everything()
    assert {name.split()[2] for name in after if name.startswith("CustomResourceDefinition")} == set(CRDS)
    assert {kind_and_namespace(name) for name in before.keys() - after.keys()} & FLEET == set()
