import asyncio
import json
from hashlib import sha1, sha256

import pytest
from huggingface_hub import HfApi
from tests.unit.web_server import Fault, WebServer

from stoker.api.reasons import TerminationClass
from stoker.fetch.download import present
from stoker.fetch.errors import FetchError

COMMIT = "a09a35458c702b33eeacc393d103063234e8bc28"
CONFIG = b'{"model_type": "llama"}'
WEIGHTS = bytes(range(256)) * 200
SIBLINGS = {"config.json": CONFIG, "model.safetensors": WEIGHTS, "pytorch_model.bin": WEIGHTS}


def git_sha1(content: bytes) -> str:
    return sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()


def sibling(path: str, content: bytes) -> dict:
    described = {"rfilename": path, "size": len(content), "blobId": git_sha1(content)}
    if path.endswith((".safetensors", ".bin")):
        described["lfs"] = {"sha256": sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return described


@pytest.fixture
def hub(web):
    """The endpoints of the hub's API that a download uses, for one repository."""
    info = {
        "id": "acme/chat",
        "sha": COMMIT,
        "siblings": [sibling(path, content) for path, content in SIBLINGS.items()],
    }
    for path in (
        "/api/models/acme/chat",
        "/api/models/acme/chat/revision/main",
        "/api/models/acme/chat/revision/v1",
    ):
        web.files[path] = json.dumps(info).encode()
    for path, content in SIBLINGS.items():
        web.files[f"/acme/chat/resolve/{COMMIT}/{path}"] = content
    return web


@pytest.fixture
def fetch_model(hub, fetch_uri):
    def run(**options):
        secrets = {"HF_ENDPOINT": hub.url, **options.pop("secrets", {})}
        return fetch_uri("hf://acme/chat", secrets=secrets, **options)

    return run


@pytest.mark.parametrize("revision", ["", "main", "v1"])
async def test_resolves_a_revision_to_its_commit_and_reads_every_file_at_it(
    hub, fetch_model, content, place, revision
):
    done = await fetch_model(revision=revision)
    assert content() == {"config.json": CONFIG, "model.safetensors": WEIGHTS}
    assert done.manifest.model_version == COMMIT
    assert done.manifest.revision == revision
    assert present(done.wish, place) == done.manifest
    files = [request.path for request in hub.requests if "resolve" in request.path]
    assert all(path.startswith(f"/acme/chat/resolve/{COMMIT}/") for path in files)


async def test_asks_what_the_hubs_own_library_asks(hub, fetch_model, ca_file, monkeypatch):
    await fetch_model(revision="v1")
    ours = hub.requests[0].path
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    info = await asyncio.to_thread(
        HfApi(endpoint=hub.url, token=False).model_info, "acme/chat", revision="v1", files_metadata=True
    )
    theirs = hub.requests[-1].path
    assert ours.lower() == theirs.lower()
    assert info.sha == COMMIT


async def test_the_token_goes_to_the_hub_and_not_to_the_content_network(
    hub, fetch_model, content, server_tls
):
    hub.authorization = "Bearer hf_secret"
    with WebServer(tls=server_tls, address="127.0.0.2") as network:
        network.files["/blob"] = WEIGHTS
        there = {"Location": f"{network.url}/blob?Signature=x"}
        hub.fail(f"GET /acme/chat/resolve/{COMMIT}/model.safetensors", Fault(status=302, headers=there))
        await fetch_model(secrets={"HF_TOKEN": "hf_secret\n"})
        assert "authorization" not in network.requests[0].headers
    assert content()["model.safetensors"] == WEIGHTS


@pytest.mark.parametrize("path", ["config.json", "model.safetensors"])
async def test_a_file_that_is_not_what_git_says_is_corrupt(hub, fetch_model, path):
    broken = b"x" * len(SIBLINGS[path])
    hub.files[f"/acme/chat/resolve/{COMMIT}/{path}"] = broken
    with pytest.raises(FetchError) as corrupt:
        await fetch_model()
    assert corrupt.value.reason is TerminationClass.WEIGHTS_CORRUPT
    assert f"`{path}`" in corrupt.value.message


@pytest.mark.parametrize(
    ("fault", "reason", "advice"),
    [
        pytest.param(
            Fault(status=401, headers={"X-Error-Code": "RepoNotFound"}),
            TerminationClass.WEIGHTS_FORBIDDEN,
            "Check the name",
            id="no such repository, or a private one, without a token",
        ),
        pytest.param(
            Fault(status=403, headers={"X-Error-Code": "GatedRepo"}),
            TerminationClass.WEIGHTS_FORBIDDEN,
            "accept its licence",
            id="a gated repository",
        ),
        pytest.param(
            Fault(status=404, headers={"X-Error-Code": "RevisionNotFound"}),
            TerminationClass.WEIGHTS_MISSING,
            "`model.revision`",
            id="no such revision",
        ),
    ],
)
async def test_says_what_to_do_about_what_the_hub_says(hub, fetch_model, fault, reason, advice):
    hub.fail("GET /api/models/acme/chat/revision/v1", fault)
    with pytest.raises(FetchError) as failed:
        await fetch_model(revision="v1")
    assert failed.value.reason is reason
    assert failed.value.message.startswith("hf://acme/chat at revision v1")
    assert advice in failed.value.fix


async def test_an_answer_that_is_no_hubs_is_said(hub, fetch_model):
    hub.files["/api/models/acme/chat"] = b"<html>captive portal</html>"
    with pytest.raises(FetchError, match="is not the hub's JSON"):
        await fetch_model()
    hub.files["/api/models/acme/chat"] = b'{"id": "acme/chat"}'
    with pytest.raises(FetchError, match="names no commit"):
        await fetch_model()


async def test_names_in_a_repository_are_judged(hub, fetch_model):
    info = {"id": "acme/chat", "sha": COMMIT, "siblings": [sibling("../../evil.safetensors", WEIGHTS)]}
    hub.files["/api/models/acme/chat"] = json.dumps(info).encode()
    with pytest.raises(FetchError) as refused:
        await fetch_model()
    assert refused.value.reason is TerminationClass.SOURCE_NOT_ALLOWED


async def test_a_repository_without_weights_or_settings_is_missing(hub, fetch_model):
    info = {"id": "acme/chat", "sha": COMMIT, "siblings": [sibling(".gitattributes", b"")]}
    hub.files["/api/models/acme/chat"] = json.dumps(info).encode()
    with pytest.raises(FetchError) as missing:
        await fetch_model()
    assert missing.value.reason is TerminationClass.WEIGHTS_MISSING
