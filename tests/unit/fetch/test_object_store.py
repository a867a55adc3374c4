"""Against moto's S3 server over real sockets; Google and Azure speak through the same client."""

import os
import urllib.request
from urllib.parse import quote

import pytest
from tests.unit.web_server import Fault

from stoker.api.reasons import TerminationClass
from stoker.fetch.download import present
from stoker.fetch.errors import FetchError
from stoker.fetch.guard import AddressGuard

MIB = 1024 * 1024
FILES = {"config.json": b"{}", "sub dir/model+1.safetensors": os.urandom(3 * MIB), "empty.txt": b""}
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "s3cret", "AWS_REGION": "us-east-1"}


@pytest.fixture(scope="session", autouse=True)
def bucket(s3):
    """A public bucket with a model, and a neighbour whose name starts the same."""

    def put(path, content=None):
        headers = {"x-amz-acl": "public-read", "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(
            f"{s3}/models{quote(path)}", method="PUT", data=content or None, headers=headers
        )
        urllib.request.urlopen(request, timeout=10).close()

    put("")
    for path, content in FILES.items():
        put(f"/team/chat/{path}", content)
    put("/team/chat-large/config.json", b"not asked for")


async def test_fetches_what_lies_below_the_prefix(s3, fetch_uri, content, place):
    done = await fetch_uri("s3://models/team/chat/", secrets={**KEYS, "AWS_ENDPOINT_URL": s3})
    assert content() == FILES
    assert done.manifest.model_version == done.manifest.digest.removeprefix("sha256:")[:12]
    assert present(done.wish, place) == done.manifest


async def test_the_name_the_user_gives_a_version_is_kept(s3, fetch_uri):
    done = await fetch_uri("s3://models/team/chat", revision="v3", secrets={**KEYS, "AWS_ENDPOINT_URL": s3})
    assert done.manifest.model_version == "v3"


async def test_a_bucket_is_read_unsigned_without_keys(s3, fetch_uri, content):
    await fetch_uri("s3://models/team/chat", secrets={"AWS_ENDPOINT_URL": s3})
    assert content() == FILES


async def test_another_digest_than_the_one_asked_for_is_fetched_anew_next_time(s3, fetch_uri, place):
    secrets = {**KEYS, "AWS_ENDPOINT_URL": s3}
    with pytest.raises(FetchError) as corrupt:
        await fetch_uri("s3://models/team/chat", sha256="sha256:" + "1" * 64, secrets=secrets)
    assert corrupt.value.reason is TerminationClass.WEIGHTS_CORRUPT
    kept = [path for path in (place.folder.parent / ".model.partial").rglob("*") if path.is_file()]
    assert [path.name for path in kept] == ["identity"]


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        pytest.param("s3://absent/team", "no such bucket", id="no such bucket"),
        pytest.param("s3://models/team/nothing", "holds no file", id="nothing below the prefix"),
    ],
)
async def test_says_what_is_missing(s3, fetch_uri, uri, words):
    with pytest.raises(FetchError, match=words) as missing:
        await fetch_uri(uri, secrets={**KEYS, "AWS_ENDPOINT_URL": s3})
    assert missing.value.reason is TerminationClass.WEIGHTS_MISSING


@pytest.fixture
def front(s3, web):
    """A TLS server that answers with faults first, where a store would; lists one object."""
    listing = (
        '<?xml version="1.0"?><ListBucketResult><Name>models</Name><Prefix>chat/</Prefix>'
        "<KeyCount>1</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated><Contents><Key>chat/model.safetensors</Key>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>&quot;e&quot;</ETag><Size>{3 * MIB}</Size></Contents></ListBucketResult>"
    )
    web.files["/models"] = listing.encode()
    web.files["/models/chat/model.safetensors"] = FILES["sub dir/model+1.safetensors"]
    return web


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        pytest.param("GET /models", Fault(status=503), id="the list is refused for now"),
        pytest.param("GET /models/chat/model.safetensors", Fault(status=500), id="the store has an error"),
        pytest.param(
            "GET /models/chat/model.safetensors", Fault(drop_after=2 * MIB), id="the connection breaks"
        ),
        pytest.param(
            "GET /models/chat/model.safetensors", Fault(hold_after=2 * MIB), id="the store falls silent"
        ),
    ],
)
async def test_goes_on_after_a_fault_that_passes(front, fetch_uri, content, target, fault):
    front.fail(target, fault)
    idle_s = 30 if fault.hold_after is None else 2
    await fetch_uri("s3://models/chat", secrets={**KEYS, "AWS_ENDPOINT_URL": front.url}, idle_s=idle_s)
    assert content() == {"model.safetensors": FILES["sub dir/model+1.safetensors"]}
    last = front.ranges("/models/chat/model.safetensors")[-1]
    assert (last is not None) == (fault.status is None)


async def test_a_whole_bucket_is_not_taken_for_a_model(front, fetch_uri):
    objects = "".join(
        f"<Contents><Key>chat/{n}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>&quot;e&quot;</ETag><Size>1</Size></Contents>"
        for n in range(10_001)
    )
    page = front.files["/models"].decode()
    front.files["/models"] = page.replace("<Contents>", f"{objects}<Contents>", 1).encode()
    with pytest.raises(FetchError, match="more than 10000 files") as refused:
        await fetch_uri("s3://models/chat", secrets={**KEYS, "AWS_ENDPOINT_URL": front.url})
    assert refused.value.reason is TerminationClass.SOURCE_NOT_ALLOWED


@pytest.mark.parametrize("status", [401, 403])
async def test_refused_keys_are_said_without_showing_them(front, fetch_uri, status):
    front.fail("GET /models", Fault(status=status, body=b"<Error><Code>AccessDenied</Code></Error>"))
    with pytest.raises(FetchError) as refused:
        await fetch_uri("s3://models/chat", secrets={**KEYS, "AWS_ENDPOINT_URL": front.url})
    assert refused.value.reason is TerminationClass.WEIGHTS_FORBIDDEN
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in f"{refused.value.message} {refused.value.fix}"


async def test_an_object_that_changes_on_the_way_is_said(front, fetch_uri):
    front.fail("GET /models/chat/model.safetensors", Fault(status=412))
    with pytest.raises(FetchError, match="changed while it was being fetched") as changed:
        await fetch_uri("s3://models/chat", secrets={**KEYS, "AWS_ENDPOINT_URL": front.url})
    assert changed.value.reason is TerminationClass.WEIGHTS_CORRUPT


async def test_a_store_that_cannot_be_reached_is_said(fetch_uri):
    with pytest.raises(FetchError) as unreachable:
        await fetch_uri("s3://models/chat", secrets={**KEYS, "AWS_ENDPOINT_URL": "https://127.0.0.1:1"})
    assert unreachable.value.reason is TerminationClass.WEIGHTS_UNREACHABLE


async def test_keys_that_cannot_be_used_are_said(fetch_uri):
    with pytest.raises(FetchError) as unusable:
        await fetch_uri("gs://models/chat", secrets={"GOOGLE_SERVICE_ACCOUNT_KEY": "not json"})
    assert unusable.value.reason is TerminationClass.WEIGHTS_FORBIDDEN
    assert "not json" not in unusable.value.message


STRICT = AddressGuard(allow_internal=False)


async def test_the_clients_own_sockets_are_held_to_the_guard(front, fetch_uri):
    with pytest.raises(FetchError, match=r"127\.0\.0\.1 has the internal address") as refused:
        await fetch_uri("s3://models/chat", secrets={**KEYS, "AWS_ENDPOINT_URL": front.url}, guard=STRICT)
    assert refused.value.reason is TerminationClass.SOURCE_NOT_ALLOWED
    assert front.requests == []


async def test_a_public_store_is_read_through_the_tunnel(
    front, fetch_uri, content, loopback_counts_as_public
):
    await fetch_uri("s3://models/chat", secrets={**KEYS, "AWS_ENDPOINT_URL": front.url}, guard=STRICT)
    assert content() == {"model.safetensors": FILES["sub dir/model+1.safetensors"]}


async def test_a_stores_redirect_cannot_lead_inside(front, fetch_uri, loopback_counts_as_public):
    inside = Fault(status=307, headers={"Location": "https://169.254.169.254/latest"})
    front.fail("GET /models/chat/model.safetensors", inside)
    with pytest.raises(FetchError, match=r"169\.254\.169\.254 has the internal address") as refused:
        await fetch_uri("s3://models/chat", secrets={**KEYS, "AWS_ENDPOINT_URL": front.url}, guard=STRICT)
    assert refused.value.reason is TerminationClass.SOURCE_NOT_ALLOWED


async def test_a_store_without_tls_is_refused(fetch_uri):
    with pytest.raises(FetchError, match="`AWS_ENDPOINT_URL` is not https") as refused:
        await fetch_uri(
            "s3://models/chat", secrets={**KEYS, "AWS_ENDPOINT_URL": "http://s3.example"}, guard=STRICT
        )
    assert refused.value.reason is TerminationClass.SOURCE_NOT_ALLOWED
