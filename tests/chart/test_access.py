"""Who may do what once the chart is installed, as the API server itself answers."""

import pytest
from tests.chart.cluster import USERS, eventually
from tests.chart.helm import CHART, NAMESPACE

OPERATOR = f"system:serviceaccount:{NAMESPACE}:stoker-operator"
GATEWAY = f"system:serviceaccount:{NAMESPACE}:stoker-gateway"


@pytest.fixture(scope="module", autouse=True)
def installed(api_server, helm):
    """A release that looks after all namespaces, and people with the cluster's own roles in one."""
    with api_server.borrowed():
        helm = helm.on(api_server.layout.kubeconfig)
        helm("install", "stoker", str(CHART), "--namespace", NAMESPACE)
        for role, who in (("view", "viewer"), ("edit", "editor"), ("admin", "owner")):
            rights = (f"--clusterrole={role}", f"--user={who}")
            api_server.kubectl("create", "rolebinding", who, "-n", USERS, *rights)
        yield


@pytest.fixture
def may(api_server):
    """`may("viewer", "list", "inferenceservices")`: whether the API server lets them, in a namespace."""

    def ask(who, verb, resource, *, group="serving.stoker.dev", namespace=USERS, name=""):
        plural, _, subresource = resource.partition("/")
        attributes = {"verb": verb, "namespace": namespace, "group": group, "resource": plural}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": who,
                "resourceAttributes": {**attributes, "subresource": subresource, "name": name},
            },
        }
        return (
            api_server.kubectl("create", "-f", "-", "-o=jsonpath={.status.allowed}", stdin=review) == "true"
        )

    return ask


@pytest.mark.parametrize(
    ("who", "verb", "resource", "allowed"),
    [
        pytest.param("viewer", "list", "inferenceservices", True, id="a viewer lists services"),
        pytest.param("viewer", "get", "inferenceservices/status", True, id="a viewer reads a status"),
        pytest.param("viewer", "create", "inferenceservices", False, id="a viewer creates none"),
        pytest.param("editor", "create", "inferenceservices", True, id="an editor creates services"),
        pytest.param("editor", "deletecollection", "inferenceservices", True, id="an editor deletes all"),
        pytest.param("editor", "patch", "inferenceservices/scale", True, id="an editor scales"),
        pytest.param("editor", "patch", "inferenceservices/status", False, id="an editor writes no status"),
        pytest.param("editor", "create", "nodecaches", False, id="an editor makes no node's cache"),
        pytest.param("owner", "update", "inferenceservices", True, id="an owner edits services"),
        pytest.param("owner", "update", "inferenceservices/status", False, id="nor does an owner"),
    ],
)
def test_the_clusters_own_roles_reach_our_kinds(may, who, verb, resource, allowed):
    # Aggregated roles are put together by a controller, a moment after the install.
    eventually(lambda: may(who, "get", "inferenceservices"), True)
    eventually(lambda: may(who, "create", "inferenceservices"), who != "viewer")
    assert may(who, verb, resource) is allowed


@pytest.mark.parametrize(
    ("verb", "group", "resource", "name", "allowed"),
    [
        pytest.param("update", "coordination.k8s.io", "leases", "stoker-operator", True, id="its own Lease"),
        pytest.param("update", "coordination.k8s.io", "leases", "other", False, id="no other Lease"),
        pytest.param("update", "serving.stoker.dev", "inferenceservices", "chat", False, id="no spec"),
        pytest.param("patch", "serving.stoker.dev", "inferenceservices", "chat", False, id="no patch of it"),
        pytest.param("patch", "serving.stoker.dev", "inferenceservices/status", "chat", True, id="a status"),
        pytest.param("get", "", "secrets", "token", True, id="a Secret that a service names"),
        pytest.param("list", "", "secrets", "", False, id="no looking for Secrets"),
        pytest.param("get", "", "configmaps", "stoker-capacity-corrections", True, id="what was measured"),
        pytest.param("list", "", "configmaps", "", False, id="no looking for ConfigMaps"),
        pytest.param("create", "", "pods/exec", "x", False, id="no command in a pod"),
    ],
)
def test_the_operator_may_do_its_work_and_no_more(may, verb, group, resource, name, allowed):
    assert may(OPERATOR, verb, resource, group=group, namespace=NAMESPACE, name=name) is allowed


@pytest.mark.parametrize(
    ("verb", "group", "resource", "allowed"),
    [
        pytest.param("watch", "serving.stoker.dev", "inferenceservices", True, id="services"),
        pytest.param("list", "discovery.k8s.io", "endpointslices", True, id="where instances are"),
        pytest.param("patch", "serving.stoker.dev", "inferenceservices/status", False, id="no status"),
        pytest.param("get", "", "secrets", False, id="no Secret"),
        pytest.param("list", "", "pods", False, id="no pods"),
    ],
)
def test_the_gateway_may_look_and_no_more(may, verb, group, resource, allowed):
    assert may(GATEWAY, verb, resource, group=group) is allowed


def test_an_operator_of_one_namespace_may_do_nothing_in_another(api_server, helm, may):
    own = "system:serviceaccount:users:own-stoker-operator"
    values = {"watchNamespaces": [USERS], "crds": {"enabled": False}}
    values["rbac"] = {"aggregateToDefaultRoles": False}
    helm.on(api_server.layout.kubeconfig)("install", "own-stoker", str(CHART), "-n", USERS, values=values)
    for verb, group, resource in (
        ("list", "serving.stoker.dev", "inferenceservices"),
        ("patch", "serving.stoker.dev", "inferenceservices/status"),
        ("patch", "apps", "deployments"),
    ):
        assert may(own, verb, resource, group=group)
        assert not may(own, verb, resource, group=group, namespace="default")


def test_pod_security_restricted_admits_every_pod(api_server, helm):
    api_server.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    pods = 0
    for obj in helm.template():
        spec = obj.get("spec", {})
        spec = spec if obj["kind"] == "Pod" else spec.get("template", {}).get("spec")
        if spec:
            pod = {"apiVersion": "v1", "kind": "Pod", "spec": {**spec, "restartPolicy": "Always"}}
            pod["metadata"] = {"generateName": "x-", "namespace": NAMESPACE}
            api_server.kubectl("create", "--dry-run=server", "-f", "-", stdin=pod)
            pods += 1
    assert pods == 3
