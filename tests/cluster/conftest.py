"""One API server for the tests of this folder, and a namespace for each of them."""

import uuid

import pytest
from tests.cluster.api_servers import api_server_in, kubectl_of
from tests.cluster.operator_process import restricted_kubeconfig, start_operator


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


@pytest.fixture
def home(kubectl):
    """The operators' own namespace, a new one for each test, so that no Lease is left in the way."""
    name = f"stoker-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def start(api_server, kubectl, tmp_path, home, namespace):
    """Start an operator for this test's namespace, with rights in it and nowhere else."""
    kubeconfig = restricted_kubeconfig(api_server, kubectl, tmp_path, namespace=home, watched=namespace)
    started = []

    def start(name, **settings):
        settings = {"watch_namespaces": namespace} | settings
        operator = start_operator(kubeconfig, tmp_path, namespace=home, name=name, **settings)
        started.append(operator)
        operator.wait_until_ready()
        return operator

    yield start
    for operator in started:
        if operator.process.poll() is None:
            operator.terminate()
