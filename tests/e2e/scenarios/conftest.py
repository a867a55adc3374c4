"""Stoker on the cluster as a user installs it, a model registry, and a namespace for each file of tests."""

import contextlib
import uuid

import pytest
from e2e import install, model_server, target
from e2e.cluster import cluster, images
from e2e.file_server import manifests
from tests.e2e.scenarios.space import FIRST_BYTE_S, MODELS, Space

from stoker.kube import access
from stoker.kube.client import Client


@pytest.fixture(scope="session")
def on(layout):
    """kubectl and Helm for the cluster."""
    return target.embedded(layout.kubeconfig)


@pytest.fixture(scope="session")
def load(layout):
    """``load("stoker")``: build an image and bring it to all nodes, or to those that are named."""

    def build_and_load(name, *nodes):
        image = images.find(name)
        images.build([image])
        wanted = [node for node in cluster.running_nodes(layout) if not nodes or node.node.name in nodes]
        images.load(image.name, wanted)

    return build_and_load


@pytest.fixture(scope="session")
def authority(layout, on, load):
    """Stoker and the model registry are up; the value is what makes clients trust the registry."""
    for name in ("stoker", "stand-in-engine", "file-server"):
        load(name)
    version = images.version(images.find("stoker"))
    install.install(on, registry="localhost", version=version, first_byte_s=FIRST_BYTE_S)
    install.make_namespace(on, MODELS)
    certificates = layout.state / "model-server"
    model_server.start(on, namespace=MODELS, certificates=certificates)
    return manifests.make_tls(certificates, namespace=MODELS)


@pytest.fixture(scope="module")
def namespace(on, authority):
    """A namespace under Pod Security `restricted` with the Secret of the registry."""
    with _namespace(on, authority) as name:
        yield name


@pytest.fixture(scope="module")
def other_namespace(on, authority):
    """A second one."""
    with _namespace(on, authority) as name:
        yield name


@pytest.fixture
async def client(layout):
    async with Client(await access.load(str(layout.kubeconfig))) as client:
        yield client


@pytest.fixture
def space(on, client, namespace):
    return Space(client=client, namespace=namespace, on=on)


@pytest.fixture
def elsewhere(on, client, other_namespace):
    return Space(client=client, namespace=other_namespace, on=on)


@contextlib.contextmanager
def _namespace(on, authority):
    name = f"scenario-{uuid.uuid4().hex[:8]}"
    install.make_namespace(on, name)
    secret = model_server.credentials(authority, namespace=name)
    on.kubectl("apply", "--server-side", "-f", "-", stdin=secret)
    yield name
    on.kubectl("delete", "namespace", name, "--wait=false")
