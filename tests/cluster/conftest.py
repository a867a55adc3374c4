"""A real API server for the tests of this folder, with the project's CRDs in it.

It has no nodes: objects, admission, watches and the built-in controllers are real, pods never run.
"""

import json
import uuid
from pathlib import Path

import pytest
from e2e.cluster import cluster, command, control_plane, layout
from e2e.cluster.errors import ClusterError

_CRDS = Path(__file__).parents[2] / "crds"
_DEADLINE_S = 60


@pytest.fixture(scope="session")
def api_server(tmp_path_factory):
    """Path of the administrator's kubeconfig; the control plane ends with the session."""
    state = tmp_path_factory.mktemp("control-plane")
    try:
        up = cluster.up(state, nodes=0)
        if any(_CRDS.glob("*.yaml")):
            control_plane.kubectl(up, "apply", "--server-side", "-f", str(_CRDS))
            command.wait_for("the CRDs", lambda: _not_established(up), deadline_s=30)
        yield up.kubeconfig
    finally:
        cluster.down(state)


def _not_established(up):
    # kubectl itself fails at once on a CRD that has no conditions yet.
    try:
        control_plane.kubectl(up, "wait", "--for=condition=Established", "--timeout=5s", "crd", "--all")
    except ClusterError as error:
        return str(error)
    return None


@pytest.fixture(scope="session")
def kubectl(api_server):
    """``kubectl("get", "pods", "-o", "json")``: parsed when it is JSON, else text without end of line.

    ``stdin`` is a manifest as a dict or a text, for ``-f -``. Fails the test with kubectl's message.
    """
    server = layout.load(api_server.parent)

    def call(*words, stdin=None):
        text = json.dumps(stdin) if isinstance(stdin, dict | list) else stdin
        answer = control_plane.kubectl(server, *words, stdin=text, deadline_s=_DEADLINE_S)
        return json.loads(answer) if {"json", "-ojson", "-o=json"} & set(words) else answer.strip()

    return call


@pytest.fixture
def namespace(kubectl):
    """Name of a namespace that only this test uses."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")
