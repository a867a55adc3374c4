"""One API server for the tests of this folder, and a namespace for each of them."""

import uuid

import pytest
from tests.cluster.api_servers import api_server_in, kubectl_of


@pytest.fixture(scope="session")
def api_server(tmp_path_factory):
    """Path of the administrator's kubeconfig; the control plane ends with the session."""
    with api_server_in(tmp_path_factory.mktemp("control-plane")) as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="session")
def kubectl(api_server):
    """See `kubectl_of`."""
    return kubectl_of(api_server)


@pytest.fixture
def namespace(kubectl):
    """Name of a namespace that only this test uses."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")
