"""A process in a pod, against a TLS server whose certificate is signed by the cluster's authority."""

import json
import ssl

import pytest
from aiohttp import web

from stoker.kube import access, pod_account
from stoker.kube.client import Client
from stoker.kube.pod_account import PodAccount
from stoker.kube.resources import PODS


@pytest.fixture
def folder(ca_file, tmp_path, monkeypatch):
    (tmp_path / "ca.crt").write_bytes(ca_file.read_bytes())
    (tmp_path / "token").write_text("first\n")
    monkeypatch.setattr(pod_account, "FOLDER", tmp_path)
    return tmp_path


@pytest.fixture
async def api_server(server_tls, monkeypatch):
    """What was asked of it, by whom."""
    asked = []

    async def handle(request):
        asked.append((request.headers["Authorization"], request.method, await request.text()))
        return web.json_response({"metadata": {}, "items": []})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_tls)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(port))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    yield asked
    await runner.cleanup()


async def test_a_pod_reaches_the_api_server_as_its_service_account(api_server, folder, monkeypatch):
    account = await access.load_light("")
    assert isinstance(account, PodAccount)
    async with Client(account) as client:
        assert await client.list(PODS, namespace="prod") == []
        (folder / "token").write_text("second")
        await client.list(PODS, namespace="prod")
        monkeypatch.setattr(pod_account, "_TOKEN_AGE_S", 0.0)
        await client.list(PODS, namespace="prod")
    assert [who for who, _, _ in api_server] == ["Bearer first", "Bearer first", "Bearer second"]


async def test_a_body_is_sent_as_json(api_server, folder):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "prod", "name": "a"}}
    async with Client(await access.load_light("")) as client:
        await client.apply(pod, field_manager="stoker")
    ((_, method, body),) = api_server
    assert method == "PATCH"
    assert json.loads(body) == pod


async def test_an_api_server_with_another_certificate_is_not_trusted(api_server, folder):
    account = PodAccount(host="https://localhost", folder=folder)
    assert account.tls.verify_mode == ssl.CERT_REQUIRED
    assert account.tls.check_hostname


@pytest.mark.parametrize(
    ("host", "url"),
    [
        pytest.param("10.0.0.1", "https://10.0.0.1:443", id="IPv4"),
        pytest.param("fd00::1", "https://[fd00::1]:443", id="IPv6 in brackets"),
    ],
)
def test_the_address_is_the_one_that_kubernetes_gives(folder, monkeypatch, host, url):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert pod_account.find().host == url


@pytest.mark.parametrize(
    "missing", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "token"], ids=lambda word: f"no {word}"
)
def test_outside_of_a_pod_there_is_no_such_account(folder, monkeypatch, missing):
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.setenv(name, "1")
    if missing == "token":
        (folder / "token").unlink()
    else:
        monkeypatch.delenv(missing)
    assert pod_account.find() is None


async def test_a_named_kubeconfig_wins_over_the_pod(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:6443"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    kubeconfig.write_text(
        json.dumps({"current-context": "x", "clusters": [cluster], "contexts": [context], "users": [user]})
    )
    assert (await access.load_light(str(kubeconfig))).host == "http://127.0.0.1:6443"
