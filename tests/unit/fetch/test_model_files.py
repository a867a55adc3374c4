import json
import urllib.request

import pytest
from tests.unit.fetch.model_folders import CONFIG, EMBEDDING, HEAD, ONE_FILE, TWO_SHARDS, safetensors
from tests.unit.web_server import Fault

from stoker.api.reasons import TerminationClass
from stoker.core.capacity.weights import StoredWeights
from stoker.core.sources import Source, parse_source
from stoker.fetch import model_files
from stoker.fetch.credentials import Credentials
from stoker.fetch.errors import FetchError
from stoker.fetch.guard import AddressGuard
from stoker.fetch.local_model import read_local_model
from stoker.fetch.model_files import read_model_files
from stoker.fetch.retry import Retry

COMMIT = "a09a35458c702b33eeacc393d103063234e8bc28"
BOTH = StoredWeights(
    total_bytes=384,
    tensors={"model.embed_tokens.weight": ("BF16", (16, 8)), "lm_head.weight": ("F8_E4M3", (16, 8))},
)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(model_files, "_RETRY", Retry(attempts=3, first_wait_s=0.01, most_wait_s=0.02))


@pytest.fixture
def read(ca_file):
    async def run(uri, *, revision="", secrets=None, allow_internal=True):
        source = parse_source(uri, allow_cluster_internal=True)
        assert isinstance(source, Source), source
        return await read_model_files(
            source,
            revision=revision,
            credentials=Credentials(values=secrets or {}, ca_file=ca_file),
            guard=AddressGuard(allow_internal=allow_internal),
        )

    return run


@pytest.fixture
def hub(web):
    """Serves a repository by the hub's API, and says how to read it."""

    def put(files):
        siblings = [{"rfilename": path, "size": len(content)} for path, content in files.items()]
        info = {"id": "acme/chat", "sha": COMMIT, "siblings": siblings}
        web.files["/api/models/acme/chat"] = json.dumps(info).encode()
        for path, content in files.items():
            web.files[f"/acme/chat/resolve/{COMMIT}/{path}"] = content
        return {"HF_ENDPOINT": web.url}

    return put


async def test_reads_a_repository_without_its_weights(hub, read, web):
    found = await read("hf://acme/chat", secrets=hub(TWO_SHARDS))
    assert found.config == CONFIG
    assert found.stored == BOTH
    assert found.version == COMMIT
    for path, content in TWO_SHARDS.items():
        (asked,) = web.ranges(f"/acme/chat/resolve/{COMMIT}/{path}")
        assert asked == f"bytes=0-{len(content) - 1}"


async def test_asks_for_a_part_of_a_large_file_only(hub, read, web):
    large = safetensors({"w": ("BF16", (1024, 1024), 2 * 1024 * 1024)})
    found = await read("hf://acme/chat", secrets=hub(ONE_FILE | {"model.safetensors": large}))
    assert found.stored.total_bytes == 2 * 1024 * 1024
    assert web.ranges(f"/acme/chat/resolve/{COMMIT}/model.safetensors") == ["bytes=0-262143"]


async def test_leaves_the_rest_where_a_server_can_only_send_all_of_a_file(hub, read, web):
    large = safetensors({"w": ("BF16", (1024, 1024), 2 * 1024 * 1024)})
    secrets = hub(ONE_FILE | {"model.safetensors": large})
    web.fail(f"GET /acme/chat/resolve/{COMMIT}/model.safetensors", Fault(ignore_range=True))
    assert (await read("hf://acme/chat", secrets=secrets)).stored.tensors == {"w": ("BF16", (1024, 1024))}


async def test_reads_a_folder_of_a_web_server_whose_sizes_are_not_known(web, read):
    web.put_folder("/chat", TWO_SHARDS)
    for path in TWO_SHARDS:
        web.fail(f"HEAD /chat/{path}", Fault(status=405))
    first = await read(f"{web.url}/chat")
    assert first.stored == BOTH
    web.put_folder("/chat", TWO_SHARDS | {"README.md": b"changed"})
    assert (await read(f"{web.url}/chat")).version != first.version


async def test_reads_a_bucket(s3, read):
    def put(path, content=b""):
        headers = {"x-amz-acl": "public-read", "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(
            f"{s3}/plan{path}", method="PUT", data=content or None, headers=headers
        )
        urllib.request.urlopen(request, timeout=10).close()

    put("")
    for path, content in TWO_SHARDS.items():
        put(f"/chat/{path}", content)
    found = await read("s3://plan/chat", secrets={"AWS_ENDPOINT_URL": s3})
    assert (found.config, found.stored) == (CONFIG, BOTH)
    assert len(found.version) == 12


@pytest.mark.parametrize(
    ("uri", "reason", "words"),
    [
        pytest.param(
            "pvc://models/chat", TerminationClass.SOURCE_NOT_ALLOWED, "only an instance mounts", id="a claim"
        ),
        pytest.param(
            "https://weights.example/chat.Q4_K_M.GGUF",
            TerminationClass.MODEL_UNSUPPORTED,
            "is GGUF",
            id="a GGUF file",
        ),
        pytest.param(
            "oci://registry.example/chat:1",
            TerminationClass.SOURCE_NOT_ALLOWED,
            "not supported yet",
            id="a source that nothing is fetched from",
        ),
    ],
)
async def test_says_of_what_it_can_not_read_why(read, uri, reason, words):
    with pytest.raises(FetchError, match=words) as refused:
        await read(uri)
    assert refused.value.reason is reason


async def test_an_archive_can_not_be_read_before_it_was_fetched(web, read):
    web.files["/chat.tar"] = b""
    with pytest.raises(FetchError, match="is an archive"):
        await read(f"{web.url}/chat.tar")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        pytest.param(Fault(status=404), TerminationClass.WEIGHTS_MISSING, id="missing"),
        pytest.param(Fault(status=403), TerminationClass.WEIGHTS_FORBIDDEN, id="forbidden"),
        pytest.param(Fault(status=503), TerminationClass.WEIGHTS_UNREACHABLE, id="unreachable"),
    ],
)
@pytest.mark.parametrize("path", ["/api/models/acme/chat", f"/acme/chat/resolve/{COMMIT}/config.json"])
async def test_a_failure_has_its_class(hub, read, web, fault, reason, path):
    secrets = hub(TWO_SHARDS)
    web.fail(f"GET {path}", *[fault] * 3)
    with pytest.raises(FetchError, match="hf://acme/chat") as failed:
        await read("hf://acme/chat", secrets=secrets)
    assert failed.value.reason is reason


@pytest.mark.parametrize("path", ["/api/models/acme/chat", f"/acme/chat/resolve/{COMMIT}/config.json"])
async def test_a_failure_that_passes_is_no_failure(hub, read, web, path):
    secrets = hub(TWO_SHARDS)
    web.fail(f"GET {path}", Fault(status=503), Fault(drop_after=1))
    assert (await read("hf://acme/chat", secrets=secrets)).stored == BOTH


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([Fault(status=403)], id="refused"),
        pytest.param([Fault(status=503)] * 3, id="failing"),
        pytest.param([Fault(hold_after=3)], id="silent"),
    ],
)
async def test_does_without_headers_that_can_not_be_had(hub, read, web, faults, monkeypatch):
    monkeypatch.setattr(model_files, "MOST_HEADERS_S", 0.5)
    secrets = hub(TWO_SHARDS)
    web.fail(f"GET /acme/chat/resolve/{COMMIT}/model-00002-of-00002.safetensors", *faults)
    total = sum(len(content) for path, content in TWO_SHARDS.items() if path != "config.json")
    found = await read("hf://acme/chat", secrets=secrets)
    assert found.stored == StoredWeights(total_bytes=total, tensors=None)


async def test_a_source_that_never_ends_is_left(hub, read, web, monkeypatch):
    monkeypatch.setattr(model_files, "MOST_S", 0.5)
    secrets = hub(TWO_SHARDS)
    web.fail(f"GET /acme/chat/resolve/{COMMIT}/config.json", Fault(hold_after=3))
    with pytest.raises(FetchError, match="took longer than") as late:
        await read("hf://acme/chat", secrets=secrets)
    assert late.value.reason is TerminationClass.WEIGHTS_UNREACHABLE


async def test_addresses_inside_the_cluster_are_refused(hub, read, web):
    with pytest.raises(FetchError) as refused:
        await read("hf://acme/chat", secrets=hub(TWO_SHARDS), allow_internal=False)
    assert refused.value.reason is TerminationClass.SOURCE_NOT_ALLOWED
    assert web.requests == []


async def test_names_in_a_listing_are_judged(hub, read):
    with pytest.raises(FetchError) as refused:
        await read("hf://acme/chat", secrets=hub(TWO_SHARDS | {"../evil.json": b""}))
    assert refused.value.reason is TerminationClass.SOURCE_NOT_ALLOWED


async def test_an_empty_config_is_not_asked_for(hub, read, web):
    with pytest.raises(FetchError, match=r"config\.json is not JSON"):
        await read("hf://acme/chat", secrets=hub(TWO_SHARDS | {"config.json": b""}))
    assert web.ranges(f"/acme/chat/resolve/{COMMIT}/config.json") == []


def write(folder, files):
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def test_reads_a_folder_on_disk(tmp_path):
    found = read_local_model(write(tmp_path, TWO_SHARDS | {"original/model.safetensors": safetensors(HEAD)}))
    assert (found.config, found.stored, found.version) == (CONFIG, BOTH, "")


@pytest.mark.parametrize("name", ["config.json", "qwen.json"])
def test_reads_a_config_alone(tmp_path, name):
    path = write(tmp_path, {name: json.dumps(CONFIG).encode()}) / name
    found = read_local_model(path)
    assert (found.config, found.stored, found.version) == (CONFIG, None, "")


def cached(root, commit):
    """A model in Hugging Face's cache: links to files that are named by their digests."""
    for path, content in TWO_SHARDS.items():
        write(root / "blobs", {path[::-1]: content})
        link = root / "snapshots" / commit / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(root / "blobs" / path[::-1])
    return root


@pytest.mark.parametrize("below", ["", f"snapshots/{COMMIT}"])
def test_reads_a_model_of_hugging_faces_cache(tmp_path, below):
    root = cached(tmp_path / "models--acme--chat", COMMIT)
    write(root / "refs", {"main": COMMIT.encode()})
    (root / "snapshots" / "older").mkdir()
    found = read_local_model(root / below)
    assert (found.config, found.stored, found.version) == (CONFIG, BOTH, COMMIT)


def test_a_cache_without_a_main_branch_has_the_newest_snapshot(tmp_path):
    assert read_local_model(cached(tmp_path, COMMIT)).version == COMMIT


def test_a_partly_fetched_cache_says_what_is_missing(tmp_path):
    (tmp_path / "snapshots").mkdir()
    with pytest.raises(FetchError, match=r"has no config\.json"):
        read_local_model(tmp_path)


@pytest.mark.parametrize(
    ("files", "path", "reason", "words"),
    [
        pytest.param({}, "absent", TerminationClass.WEIGHTS_MISSING, "no file or folder", id="nothing there"),
        pytest.param(
            {"chat.gguf": b"GGUF"},
            "chat.gguf",
            TerminationClass.MODEL_UNSUPPORTED,
            "is GGUF",
            id="a GGUF file",
        ),
        pytest.param(
            {"model.safetensors": safetensors(EMBEDDING)},
            "model.safetensors",
            TerminationClass.MODEL_UNSUPPORTED,
            "is not JSON",
            id="a file of weights",
        ),
        pytest.param(
            {"chat/config.json": b"{}"},
            "",
            TerminationClass.WEIGHTS_MISSING,
            "one in `chat`",
            id="the folder above",
        ),
        pytest.param(
            {"config.json": b"{}", "model.safetensors": b"version https://git-lfs.github.com/spec/v1"},
            "",
            TerminationClass.WEIGHTS_MISSING,
            "pointer of Git LFS",
            id="a clone without its large files",
        ),
    ],
)
def test_says_what_is_on_disk_if_it_is_no_model(tmp_path, files, path, reason, words):
    write(tmp_path, files)
    with pytest.raises(FetchError, match=words) as refused:
        read_local_model(tmp_path / path)
    assert refused.value.reason is reason


def test_a_folder_that_can_not_be_read_is_said(tmp_path):
    loop = tmp_path / "config.json"
    loop.symlink_to(loop)
    with pytest.raises(FetchError, match="no file or folder"):
        read_local_model(loop)
    with pytest.raises(FetchError, match="can't be read: File name too long") as unreadable:
        read_local_model(tmp_path / ("x" * 300))
    assert unreadable.value.reason is TerminationClass.WEIGHTS_UNREACHABLE
