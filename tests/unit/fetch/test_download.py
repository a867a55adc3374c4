import asyncio
import os
from hashlib import sha256
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.web_server import Fault

from stoker.api.reasons import TerminationClass
from stoker.fetch import disk
from stoker.fetch.download import Limits, Wish, present
from stoker.fetch.errors import FetchError, without_queries
from stoker.fetch.progress import progress_line
from stoker.fetch.retry import Retry, wait_s

MIB = 1024 * 1024
ONE_BY_ONE = Limits(parallel_files=1, retry=Retry(attempts=3, first_wait_s=0.01))
FILES = {"config.json": b"{}", "model.safetensors": os.urandom(MIB)}


@pytest.fixture
def folder(web):
    web.put_folder("/m", FILES)
    return f"{web.url}/m"


async def test_what_is_there_whole_is_known_by_its_manifest_and_sizes(folder, fetch_uri, place):
    done = await fetch_uri(folder)
    assert present(done.wish, place) == done.manifest
    assert present(Wish(uri=folder, sha256=done.manifest.digest), place) == done.manifest
    assert present(Wish(uri=folder, sha256="0" * 64), place) is None
    assert present(Wish(uri=folder, revision="v2"), place) is None
    assert present(Wish(uri=f"{folder}2"), place) is None
    (place.folder / "config.json").write_bytes(b"longer")
    assert present(done.wish, place) is None


async def test_a_model_of_another_source_is_replaced(web, folder, fetch_uri, content):
    await fetch_uri(folder)
    web.put_folder("/other", {"config.json": b"other"})
    await fetch_uri(f"{web.url}/other")
    assert content() == {"config.json": b"other"}


async def test_whole_files_of_a_failed_run_are_not_fetched_again(web, folder, fetch_uri, content):
    web.fail("GET /m/model.safetensors", Fault(drop_after=300_000), *[Fault(status=500)] * 2)
    with pytest.raises(FetchError):
        await fetch_uri(folder, limits=ONE_BY_ONE)
    await fetch_uri(folder)
    assert content() == FILES
    assert web.ranges("/m/config.json") == [None]
    assert web.ranges("/m/model.safetensors")[-1] == "bytes=300000-"


async def test_partial_files_of_another_content_are_not_continued(web, folder, fetch_uri, content):
    web.fail("GET /m/model.safetensors", Fault(drop_after=300_000), *[Fault(status=500)] * 2)
    with pytest.raises(FetchError):
        await fetch_uri(folder)
    changed = {"config.json": b"{}", "model.safetensors": os.urandom(MIB)}
    web.put_folder("/m", changed)
    await fetch_uri(folder)
    assert content() == changed
    assert web.ranges("/m/model.safetensors")[-1] is None


async def test_a_partial_file_with_wrong_bytes_is_found_out_and_fetched_anew(
    web, folder, fetch_uri, content, place
):
    web.fail("GET /m/model.safetensors", Fault(drop_after=300_000), *[Fault(status=500)] * 2)
    with pytest.raises(FetchError):
        await fetch_uri(folder)
    partial = place.folder.parent / ".model.partial" / "parts" / "model.safetensors"
    partial.write_bytes(b"\0" * 300_000)
    await fetch_uri(folder)
    assert content() == FILES
    assert web.ranges("/m/model.safetensors")[-2:] == ["bytes=300000-", None]


async def test_a_whole_file_that_went_bad_since_is_fetched_anew(web, folder, fetch_uri, content, place):
    web.fail("GET /m/model.safetensors", *[Fault(status=500)] * 3)
    with pytest.raises(FetchError):
        await fetch_uri(folder, limits=ONE_BY_ONE)
    (place.folder.parent / ".model.partial" / "files" / "config.json").write_bytes(b"{]")
    await fetch_uri(folder)
    assert content() == FILES
    assert web.ranges("/m/config.json") == [None, None]


async def test_a_partial_file_that_is_too_long_is_fetched_anew(web, folder, fetch_uri, content, place):
    web.fail("GET /m/model.safetensors", Fault(drop_after=300_000), *[Fault(status=500)] * 2)
    with pytest.raises(FetchError):
        await fetch_uri(folder)
    (place.folder.parent / ".model.partial" / "parts" / "model.safetensors").write_bytes(bytes(2 * MIB))
    await fetch_uri(folder)
    assert content() == FILES
    assert web.ranges("/m/model.safetensors")[-1] is None


async def test_a_source_that_sends_more_than_it_listed_cannot_fill_the_disk(web, folder, fetch_uri):
    web.fail("HEAD /m/model.safetensors", Fault(claim_bytes=1000))
    web.fail("GET /m/model.safetensors", Fault(no_length=True))
    with pytest.raises(FetchError, match="was listed with 1000 bytes, and more came") as corrupt:
        await fetch_uri(folder)
    assert corrupt.value.reason is TerminationClass.WEIGHTS_CORRUPT


async def test_killed_between_the_rename_and_the_manifest_nothing_is_fetched_again(
    web, folder, fetch_uri, content, monkeypatch, place
):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("stoker.fetch.download.write_manifest", killed)
        with pytest.raises(KeyboardInterrupt):
            await fetch_uri(folder)
    assert place.folder.exists()
    await fetch_uri(folder)
    assert content() == FILES
    assert web.ranges("/m/model.safetensors") == [None]


async def test_progress_made_renews_the_patience(web, fetch_uri, content):
    files = {"model.safetensors": os.urandom(6 * MIB)}
    web.put_folder("/big", files)
    web.fail("GET /big/model.safetensors", *[Fault(drop_after=MIB + 1)] * 5)
    await fetch_uri(f"{web.url}/big")
    assert content() == files
    assert len(web.ranges("/big/model.safetensors")) == 6


async def test_files_come_side_by_side_but_not_too_many(web, fetch_uri):
    web.put_folder("/many", {f"f{n}": bytes([n]) * 3000 for n in range(12)})
    for n in range(12):
        web.fail(f"GET /many/f{n}", Fault(hold_after=1))

    def bodies(requests):
        return [request for request in requests if request.method == "GET" and "SUMS" not in request.path]

    fetching = asyncio.create_task(fetch_uri(f"{web.url}/many"))
    await asyncio.to_thread(web.wait_until, lambda requests: len(bodies(requests)) >= 4)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(fetching), 0.2)
    assert len(bodies(web.requests)) == 4
    web.released.set()
    await fetching


async def test_a_disk_that_is_too_small_is_said_before_anything_is_fetched(
    web, folder, fetch_uri, monkeypatch
):
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(FetchError) as full:
        await fetch_uri(folder)
    assert full.value.reason is TerminationClass.DISK_FULL
    assert f"{folder} needs {MIB + 2} bytes more, and 1000 are free at " in full.value.message
    assert web.ranges("/m/model.safetensors") == []


def test_a_disk_that_fills_up_on_the_way_is_said(tmp_path):
    with (
        open("/dev/full", "wb", buffering=0) as stream,
        pytest.raises(FetchError) as full,
        disk.told_when_full(tmp_path, needed_bytes=5, uri="hf://a/b"),
    ):
        stream.write(b"x")
    assert full.value.reason is TerminationClass.DISK_FULL
    assert "hf://a/b needs 5 bytes more" in full.value.message


@pytest.mark.parametrize(
    ("failures", "asked_s", "chance", "expected_s"),
    [
        pytest.param(1, None, 0.5, 0.5, id="half of the first wait"),
        pytest.param(3, None, 0.5, 2.0, id="the third failure waits four times as long"),
        pytest.param(20, None, 0.5, 15.0, id="never longer than the bound"),
        pytest.param(1, 7.0, 0.5, 7.0, id="never shorter than the source asks"),
    ],
)
def test_waits_longer_with_each_failure(failures, asked_s, chance, expected_s):
    assert wait_s(Retry(), failures=failures, asked_s=asked_s, chance=chance) == pytest.approx(expected_s)


@given(st.integers(1, 1000), st.floats(0, 1, exclude_max=True))
def test_a_wait_is_never_negative_nor_longer_than_the_bound(failures, chance):
    assert 0 <= wait_s(Retry(), failures=failures, asked_s=None, chance=chance) <= Retry().most_wait_s


@pytest.mark.parametrize(
    ("done", "total", "rate", "line"),
    [
        pytest.param(
            1024 * MIB,
            4096 * MIB,
            512 * MIB,
            "1024.0 of 4096.0 MiB (25 %), 512.0 MiB/s, 6 s left",
            id="on the way",
        ),
        pytest.param(MIB, 2 * MIB, 0, "1.0 of 2.0 MiB (50 %), 0.0 MiB/s, stalled", id="nothing comes"),
        pytest.param(MIB, None, MIB, "1.0 MiB, 1.0 MiB/s", id="nobody knows how much"),
        pytest.param(0, 0, 0, "0.0 of 0.0 MiB (100 %), 0.0 MiB/s, stalled", id="nothing to do"),
    ],
)
def test_says_how_far_it_is(done, total, rate, line):
    assert progress_line(done_bytes=done, total_bytes=total, bytes_per_s=rate) == line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param(
            "GET https://a.blob.example/c/x?sv=1&sig=SECRET%3D in 3ms",
            "GET https://a.blob.example/c/x in 3ms",
            id="an Azure access signature",
        ),
        pytest.param("(https://b/x?X-Amz-Signature=SECRET)", "(https://b/x)", id="a signed link in brackets"),
        pytest.param("is it so? yes", "is it so? yes", id="a question"),
    ],
)
def test_a_message_shows_no_query(text, shown):
    assert without_queries(text) == shown


def test_the_manifest_lists_what_is_there(folder, fetch_uri, place):
    done = asyncio.run(fetch_uri(folder))
    assert {file.path: file.sha256 for file in done.manifest.files} == {
        path: sha256(content).hexdigest() for path, content in FILES.items()
    }
