"""The chart on a real API server: install, upgrade, uninstall, and what people may do then."""

import shutil

import pytest
import yaml
from charts import generate
from tests.chart.cluster import CRDS, SERVICE_CRD, USERS, eventually
from tests.chart.helm import CHART, NAMESPACE, Refused

CHAT = {
    "apiVersion": "serving.stoker.dev/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"name": "chat", "namespace": USERS},
    "spec": {
        "model": {"uri": "https://weights.example.com/chat", "contextLength": 4096},
        "accelerator": {"type": "cpu"},
    },
}


@pytest.fixture
def cluster(api_server):
    with api_server.borrowed():
        yield api_server


@pytest.fixture
def release(helm, cluster):
    """`release("install", "--set", ...)` for a release `stoker` in its own namespace."""
    helm = helm.on(cluster.layout.kubeconfig)

    def run(command, *args, chart=CHART, values=None):
        place = ("--namespace", NAMESPACE)
        if command == "uninstall":
            return helm(command, "stoker", *place, "--wait")
        return helm(command, "stoker", str(chart), *place, *args, values=values)

    return run


def changes(before, after):
    """Objects that are new, gone or written to."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def test_installs_and_uninstalls_without_a_trace_but_crds_and_users_objects(cluster, release):
    before = cluster.everything().keys()
    release("install")
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", *CRDS)
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=CHAT)
    assert len(cluster.everything().keys() - before) > 15
    release("uninstall")

    def left():
        return {tuple(name.split()[::2]) for name in cluster.everything().keys() - before}

    eventually(left, {("CustomResourceDefinition", name) for name in CRDS} | {("InferenceService", "chat")})


def test_installs_again_over_the_crds_it_left(cluster, release):
    release("install")
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", *CRDS)
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=CHAT)
    uid = cluster.get("infer", "chat", "-n", USERS)["metadata"]["uid"]
    release("uninstall")
    release("install")
    assert cluster.get("infer", "chat", "-n", USERS)["metadata"]["uid"] == uid


def test_uninstall_deletes_the_crds_only_when_asked(cluster, release):
    release("install", "--set", "crds.keep=false")
    release("uninstall")
    eventually(lambda: cluster.get("crd")["items"], [])


def test_takes_over_crds_that_someone_applied_when_told_to(cluster, release):
    cluster.kubectl("apply", "--server-side", "-f", str(CHART / "files" / "crds"))
    with pytest.raises(Refused, match="cannot be imported into the current release"):
        release("install")
    release("install", "--take-ownership")
    annotations = cluster.get("crd", SERVICE_CRD)["metadata"]["annotations"]
    assert annotations["meta.helm.sh/release-name"] == "stoker"


@pytest.fixture
def older_chart(tmp_path):
    """The chart as it was before `model.contextLength` came."""
    chart = tmp_path / "stoker"
    shutil.copytree(CHART, chart)
    path = chart / "files" / "crds" / f"serving.stoker.dev_{SERVICE_CRD.partition('.')[0]}.yaml"
    crd = yaml.safe_load(path.read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del schema["spec"]["properties"]["model"]["properties"]["contextLength"]
    path.write_text(yaml.safe_dump(crd))
    return chart


def test_an_upgrade_brings_the_crds_new_fields_to_objects_that_live_on(cluster, release, older_chart):
    release("install", chart=older_chart)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", *CRDS)
    cluster.kubectl("create", "-f", "-", "--validate=false", stdin=CHAT)
    old = cluster.get("infer", "chat", "-n", USERS)
    assert "contextLength" not in old["spec"]["model"]

    release("upgrade")

    def write_and_read():
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=CHAT)
        return cluster.get("infer", "chat", "-n", USERS)["spec"]["model"].get("contextLength")

    # The API server takes a moment to serve a changed CRD.
    eventually(lambda: "contextLength" in cluster.kubectl("explain", "infer.spec.model"), True)
    assert write_and_read() == 4096
    assert cluster.get("infer", "chat", "-n", USERS)["metadata"]["uid"] == old["metadata"]["uid"]


def test_an_upgrade_to_the_same_writes_nothing_but_helms_own_record(cluster, release):
    release("install")
    before = cluster.settled()
    release("upgrade")
    written = changes(before, cluster.everything())
    assert [name for name in written if not name.split()[2].startswith("sh.helm.release.v1.")] == []


def test_the_plain_manifest_applied_again_writes_nothing(cluster):
    manifest = generate.manifest()
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=manifest)
    before = cluster.settled()
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=manifest)
    assert changes(before, cluster.everything()) == []


def test_an_upgrade_leaves_the_lease_to_the_operator(cluster, release):
    release("install")
    lease = cluster.get("lease", "stoker-operator", "-n", NAMESPACE)
    lease["spec"] = {"holderIdentity": "one", "leaseDurationSeconds": 15}
    cluster.kubectl("replace", "-f", "-", stdin=lease)
    release("upgrade", "--set", "commonLabels.team=a")
    after = cluster.get("lease", "stoker-operator", "-n", NAMESPACE)
    assert after["spec"] == lease["spec"]
    assert after["metadata"]["labels"]["team"] == "a"
