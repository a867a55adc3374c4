import base64
from hashlib import sha256

import pytest
from tests.unit.web_server import Fault

from stoker.api.reasons import TerminationClass
from stoker.fetch.download import present
from stoker.fetch.errors import FetchError
from stoker.fetch.http import parse_sums

FILES = {"config.json": b'{"a": 1}', "sub/model.safetensors": bytes(range(256)) * 400, "empty.txt": b""}
BIG = "sub/model.safetensors"


@pytest.fixture
def folder(web):
    web.put_folder("/models/chat", FILES)
    return f"{web.url}/models/chat"


async def refusal(fetching) -> FetchError:
    with pytest.raises(FetchError) as failed:
        await fetching
    return failed.value


async def test_fetches_a_folder_and_writes_its_digest(web, folder, fetch_uri, content, place):
    done = await fetch_uri(folder)
    assert content() == FILES
    sums = sha256(web.files["/models/chat/SHA256SUMS"]).hexdigest()
    assert done.manifest.digest == f"sha256:{sums}"
    assert done.manifest.model_version == sums[:12]
    assert present(done.wish, place) == done.manifest
    assert sorted(path.name for path in place.folder.parent.iterdir()) == ["manifest.json", "model"]


async def test_a_slash_at_the_end_of_the_address_does_not_matter(folder, fetch_uri, content):
    await fetch_uri(f"{folder}/")
    assert content() == FILES


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(drop_after=5000), id="the connection breaks in the middle"),
        pytest.param(Fault(status=500), id="the server has an error"),
        pytest.param(Fault(status=503, headers={"Retry-After": "0"}), id="the server is overloaded"),
        pytest.param(Fault(status=429), id="the server asks for patience"),
        pytest.param(Fault(hold_after=5000), id="the server falls silent"),
        pytest.param(Fault(drop_after=0), id="the connection breaks before the first byte"),
    ],
)
async def test_goes_on_after_a_fault_that_passes(web, folder, fetch_uri, content, fault):
    web.fail(f"GET /models/chat/{BIG}", fault)
    await fetch_uri(folder, idle_s=30 if fault.hold_after is None else 2)
    assert content() == FILES
    arrived = fault.drop_after or fault.hold_after or 0
    resumed_at = f"bytes={arrived}-" if arrived else None
    assert web.ranges(f"/models/chat/{BIG}") == [None, resumed_at]


async def test_starts_again_where_the_server_cannot_start_in_the_middle(web, folder, fetch_uri, content):
    web.fail(f"GET /models/chat/{BIG}", Fault(drop_after=5000), Fault(ignore_range=True))
    await fetch_uri(folder)
    assert content() == FILES


async def test_does_not_trust_a_range_that_was_not_asked_for(web, folder, fetch_uri, content):
    web.fail(f"GET /models/chat/{BIG}", Fault(drop_after=5000), Fault(wrong_range=True))
    await fetch_uri(folder)
    assert content() == FILES
    assert web.ranges(f"/models/chat/{BIG}") == [None, "bytes=5000-", "bytes=5000-"]


async def test_takes_files_whose_size_nobody_tells(web, folder, fetch_uri, content):
    web.fail(f"HEAD /models/chat/{BIG}", Fault(status=405))
    web.fail(f"GET /models/chat/{BIG}", Fault(no_length=True))
    await fetch_uri(folder)
    assert content() == FILES


async def test_a_slow_source_is_waited_for_and_its_progress_shown(web, folder, fetch_uri, content):
    web.fail(f"GET /models/chat/{BIG}", Fault(delay_s=0.005))
    done = await fetch_uri(folder)
    assert content() == FILES
    assert any(line.startswith(f"{folder}: ") and "% " not in line and "(" in line for line in done.said)


async def test_gives_up_with_the_cause_after_the_last_attempt(web, folder, fetch_uri):
    web.fail(f"GET /models/chat/{BIG}", *[Fault(status=502)] * 3)
    error = await refusal(fetch_uri(folder))
    assert error.reason is TerminationClass.WEIGHTS_UNREACHABLE
    assert error.message == (
        f"{folder}: the file `{BIG}` could not be fetched in 3 attempts: the server answered 502 Bad Gateway"
    )


@pytest.mark.parametrize(
    ("claimed", "reason"),
    [
        pytest.param(len(FILES[BIG]) + 10, TerminationClass.WEIGHTS_CORRUPT, id="too long"),
        pytest.param(len(FILES[BIG]) - 10, TerminationClass.WEIGHTS_CORRUPT, id="too short"),
    ],
)
async def test_a_wrong_content_length_is_never_taken_for_the_file(
    web, folder, fetch_uri, place, claimed, reason
):
    web.fail(f"GET /models/chat/{BIG}", *[Fault(claim_bytes=claimed)] * 3)
    error = await refusal(fetch_uri(folder))
    assert error.reason is reason
    assert BIG in error.message
    assert str(claimed) in error.message
    assert not place.manifest.exists()


async def test_a_wrong_byte_is_fetched_again_and_then_said(web, folder, fetch_uri, place):
    web.files[f"/models/chat/{BIG}"] = b"x" * len(FILES[BIG])
    error = await refusal(fetch_uri(folder))
    assert error.reason is TerminationClass.WEIGHTS_CORRUPT
    assert sha256(FILES[BIG]).hexdigest() in error.message
    assert sha256(b"x" * len(FILES[BIG])).hexdigest() in error.message
    assert web.ranges(f"/models/chat/{BIG}") == [None, None]
    assert not place.manifest.exists()
    assert not place.folder.exists()


async def test_another_digest_than_the_one_asked_for_is_said_before_anything_is_fetched(
    web, folder, fetch_uri
):
    wanted = "sha256:" + "0" * 64
    error = await refusal(fetch_uri(folder, sha256=wanted))
    assert error.reason is TerminationClass.WEIGHTS_CORRUPT
    actual = sha256(web.files["/models/chat/SHA256SUMS"]).hexdigest()
    assert error.message == f"{folder} has the digest sha256:{actual}, and {wanted} was asked for"
    assert web.ranges(f"/models/chat/{BIG}") == []


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        pytest.param(404, TerminationClass.WEIGHTS_MISSING, "does not exist (404)", id="not there"),
        pytest.param(410, TerminationClass.WEIGHTS_MISSING, "does not exist (410)", id="gone"),
        pytest.param(
            401, TerminationClass.WEIGHTS_FORBIDDEN, "asks for credentials", id="credentials wanted"
        ),
        pytest.param(403, TerminationClass.WEIGHTS_FORBIDDEN, "asks for credentials", id="forbidden"),
        pytest.param(
            400, TerminationClass.WEIGHTS_UNREACHABLE, "answered 400", id="a refusal of another kind"
        ),
        pytest.param(
            304, TerminationClass.WEIGHTS_UNREACHABLE, "answered 304", id="an answer to another question"
        ),
    ],
)
async def test_says_what_the_server_says(web, folder, fetch_uri, status, reason, words):
    web.fail("GET /models/chat/SHA256SUMS", Fault(status=status))
    error = await refusal(fetch_uri(folder))
    assert error.reason is reason
    assert error.message.startswith(f"{folder}: the file `SHA256SUMS`")
    assert words in error.message
    assert len(web.requests) == 1


@pytest.mark.parametrize(
    ("secrets", "header"),
    [
        pytest.param({"HTTP_BEARER_TOKEN": "t0ken\n"}, "Bearer t0ken", id="bearer"),
        pytest.param(
            {"HTTP_USERNAME": "ann", "HTTP_PASSWORD": "pässword"},
            "Basic " + base64.b64encode("ann:pässword".encode()).decode(),
            id="basic",
        ),
    ],
)
async def test_sends_credentials(web, folder, fetch_uri, content, secrets, header):
    web.authorization = header
    await fetch_uri(folder, secrets=secrets)
    assert content() == FILES


async def test_refused_credentials_are_said_without_showing_them(web, folder, fetch_uri):
    web.authorization = "Bearer right"
    error = await refusal(fetch_uri(folder, secrets={"HTTP_BEARER_TOKEN": "wr0ng"}))
    assert error.reason is TerminationClass.WEIGHTS_FORBIDDEN
    assert "refuses the credentials (403)" in error.message
    assert "wr0ng" not in f"{error.message} {error.fix}"


@pytest.mark.parametrize(
    "sums",
    [
        pytest.param("0" * 64 + "  ../../etc/cron.d/x\n", id="a way up"),
        pytest.param("0" * 64 + "  /etc/passwd\n", id="absolute"),
        pytest.param("0" * 64 + "  a\\b\n", id="a backslash"),
        pytest.param(("0" * 64 + "  a\n") * 2, id="twice"),
    ],
)
async def test_refuses_names_in_sha256sums(web, folder, fetch_uri, tmp_path, sums):
    web.files["/models/chat/SHA256SUMS"] = sums.encode()
    web.files["/models/chat/a"] = b""
    before = sorted(tmp_path.parent.rglob("*"))
    web.fail("HEAD /models/etc/cron.d/x", Fault(status=405))
    error = await refusal(fetch_uri(folder))
    assert error.reason in (TerminationClass.SOURCE_NOT_ALLOWED, TerminationClass.WEIGHTS_MISSING)
    assert sorted(tmp_path.parent.rglob("*")) == before


def test_reads_the_forms_that_sha256sum_writes():
    a, b = "a" * 64, "B" * 64
    text = f"{a}  config.json\n{b} *sub/x y.bin\n{a}  ./tokenizer.json\n{a}  SHA256SUMS\n"
    assert parse_sums(text, uri="https://h/m") == (
        ("config.json", a),
        ("sub/x y.bin", b.lower()),
        ("tokenizer.json", a),
    )


def test_names_the_line_that_is_not_a_sum():
    with pytest.raises(FetchError, match="line 2 of SHA256SUMS"):
        parse_sums("a" * 64 + "  x\n<html>\n", uri="https://h/m")


async def test_an_empty_list_of_files_is_missing_weights(web, folder, fetch_uri):
    web.files["/models/chat/SHA256SUMS"] = b""
    error = await refusal(fetch_uri(folder))
    assert error.reason is TerminationClass.WEIGHTS_MISSING


async def test_a_list_of_more_files_than_a_model_has_is_refused_before_they_are_asked_for(web, fetch_uri):
    web.files["/models/all/SHA256SUMS"] = b"".join(b"%064x  file-%d\n" % (n, n) for n in range(10_001))
    refused = await refusal(fetch_uri(f"{web.url}/models/all"))
    assert refused.reason is TerminationClass.SOURCE_NOT_ALLOWED
    assert "more than 10000 files" in refused.message
    assert len(web.requests) == 1
