"""An operator in a cluster full of objects that are not its own."""

import asyncio
import ssl

import aiohttp
import pytest
from tests.cluster.api_servers import api_server_in, kubectl_of
from tests.cluster.operator_process import restricted_kubeconfig, start_operator
from tests.cluster.world import World, eventually

from stoker.kube import access
from stoker.kube.client import Client

SECRETS, PODS = 8_000, 5_000
AT_ONCE = 64
HOME, CROWD = "stoker-system", "crowd"
MIB = 1024 * 1024


@pytest.fixture
def api_server(tmp_path):
    """An API server of its own, as thousands of objects are in the way of other tests while they go."""
    with api_server_in(tmp_path / "control-plane") as kubeconfig:
        yield kubeconfig


async def test_o17_memory_does_not_follow_8000_secrets_and_5000_pods(api_server, tmp_path):
    kubectl = kubectl_of(api_server)
    kubectl("create", "namespace", HOME)
    kubectl("create", "namespace", CROWD)
    kubectl("wait", "--for=create", "serviceaccount/default", "-n", CROWD, "--timeout=30s")
    kubeconfig = restricted_kubeconfig(api_server, kubectl, tmp_path, namespace=HOME)
    configuration = await access.load(str(api_server))
    async with Client(configuration) as client:
        world = World(client=client, namespace="default")
        operator = start_operator(kubeconfig, tmp_path, namespace=HOME, name="before")
        operator.wait_until_ready()
        await world.apply()
        await world.settled()
        await eventually(lambda: _is_idle(operator), within_s=10)
        before_bytes = operator.memory_bytes()

        await _create(configuration, "secrets", (_secret(n) for n in range(SECRETS)))
        await _create(configuration, "pods", (_pod(n) for n in range(PODS)))
        await world.apply(replicas=2)
        await world.settled()
        await eventually(lambda: _is_idle(operator), within_s=10)
        after_bytes = operator.memory_bytes()
        assert operator.terminate() == 0

        fresh = start_operator(kubeconfig, tmp_path, namespace=HOME, name="after")
        fresh.wait_until_ready()
        await eventually(lambda: _has_looked(fresh), within_s=20)
        fresh_bytes = fresh.memory_bytes()
        assert fresh.terminate() == 0
    assert after_bytes - before_bytes < 10 * MIB
    assert fresh_bytes - before_bytes < 10 * MIB


def _secret(number):
    """One of about the size of a Helm release of a small chart."""
    metadata = {"name": f"stranger-{number}"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"x": "x" * 4_000}}


def _pod(number):
    """One of about the size of a pod with a sidecar, as the API server keeps it."""
    metadata = {"name": f"stranger-{number}", "annotations": {"x": "x" * 4_000}}
    spec = {"containers": [{"name": "x", "image": "localhost/none:none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def _create(configuration, plural, objects):
    """Create these objects in the crowd's namespace, some of them at a time."""
    tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    waiting = iter(objects)

    async def work(session):
        for manifest in waiting:
            path = f"/api/v1/namespaces/{CROWD}/{plural}"
            async with session.post(path, json=manifest, ssl=tls) as answer:
                assert answer.status == 201, await answer.text()

    async with aiohttp.ClientSession(configuration.host) as session:
        await asyncio.gather(*(work(session) for _ in range(AT_ONCE)))


async def _is_idle(operator):
    assert operator.is_idle()


async def _has_looked(operator):
    assert operator.reconciles() >= 1
    assert operator.is_idle()
