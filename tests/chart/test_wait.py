"""`helm install --wait` of a user's own chart waits for an `InferenceService` as it should.

Helm itself decides here, on a real API server, with the statuses that `reconcile` writes.
"""

import json
from pathlib import Path

import pytest
from tests.chart.cluster import USERS
from tests.chart.helm import Refused
from tests.unit.core.simulator import Cluster, a_service, a_spec

CRDS = Path(__file__).parents[2] / "crds"


@pytest.fixture(scope="module", autouse=True)
def crds(api_server):
    with api_server.borrowed():
        api_server.kubectl("apply", "--server-side", "-f", str(CRDS))
        api_server.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
        yield


@pytest.fixture
def users_chart(tmp_path):
    """A chart of a user, with one service in it."""
    chart = tmp_path / "models"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: models\nversion: 1.0.0\n")
    service = a_service()
    service["metadata"] = {"name": "chat"}
    (chart / "templates" / "chat.yaml").write_text(json.dumps(service))
    return chart


@pytest.fixture
def wait(helm, api_server, users_chart):
    """Install, have the operator's status written, and wait as Helm does; what Helm says if it gives up."""
    helm = helm.on(api_server.layout.kubeconfig)

    def run(status):
        place = ("models", str(users_chart), "--namespace", USERS)
        helm("install", *place)
        if status:
            patch = json.dumps({"status": status})
            api_server.kubectl(
                "patch", "infer", "chat", "-n", USERS, "--subresource=status", "--type=merge", "-p", patch
            )
        try:
            helm("upgrade", *place, "--wait", "--timeout=5s")
        except Refused as refused:
            return str(refused)
        return None

    yield run
    helm("uninstall", "models", "--namespace", USERS, "--wait")


def status_of(spec, *, settled=True):
    cluster = Cluster(a_service(spec))
    cluster.settle() if settled else cluster.step()
    return cluster.status


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(a_spec(), id="serving"),
        pytest.param(a_spec(replicas=0), id="scaled to zero on purpose"),
    ],
)
def test_is_done(wait, spec):
    assert wait(status_of(spec)) is None


@pytest.mark.parametrize(
    ("status", "words"),
    [
        pytest.param(None, ["status: InProgress"], id="nobody has looked at it"),
        pytest.param(status_of(a_spec(), settled=False), ["status: InProgress"], id="starting"),
        pytest.param(
            status_of(a_spec(model={"uri": "ftp://x/y"}), settled=False),
            ["status: Failed", "the source must start with one of"],
            id="a spec that cannot be carried out",
        ),
    ],
)
def test_is_not_done(wait, status, words):
    said = wait(status)
    for word in words:
        assert word in said
