import gzip
import io
import tarfile
import tempfile
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.web_server import Fault

from stoker.api.reasons import TerminationClass
from stoker.fetch.archive import unpack
from stoker.fetch.errors import FetchError

FILES = {"config.json": b"{}", "sub/model.safetensors": bytes(range(256)) * 300}


def plain(name: str, content: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    return member, content


def special(name: str, kind: bytes, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member, b""


def packed(*members: tuple[tarfile.TarInfo, bytes], zipped: bool = False) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz" if zipped else "w") as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def packed_files(files: dict[str, bytes], *, zipped: bool = False) -> bytes:
    return packed(*(plain(path, content) for path, content in files.items()), zipped=zipped)


@pytest.fixture
def unpacked(tmp_path):
    """Unpack bytes; returns what lies in the model's folder and what was said of it."""

    def run(archive: bytes):
        (tmp_path / "archive").write_bytes(archive)
        folder, digests = unpack(tmp_path / "archive", tmp_path / "into", uri="https://h/m.tar")
        found = {
            str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }
        return found, digests

    return run


@pytest.mark.parametrize("zipped", [pytest.param(False, id="plain"), pytest.param(True, id="with gzip")])
@pytest.mark.parametrize("top", ["", "./", "chat/", "./chat/"])
def test_unpacks_with_or_without_a_folder_around_the_files(unpacked, zipped, top):
    found, digests = unpacked(
        packed_files({f"{top}{path}": content for path, content in FILES.items()}, zipped=zipped)
    )
    assert found == FILES
    assert {d.path: (d.size_bytes, d.sha256) for d in digests} == {
        path: (len(content), sha256(content).hexdigest()) for path, content in FILES.items()
    }


def test_folders_in_the_archive_are_fine(unpacked):
    found, _ = unpacked(
        packed(special("./", tarfile.DIRTYPE), special("sub/", tarfile.DIRTYPE), plain("sub/a"))
    )
    assert found == {"a": b"x"}


@pytest.mark.parametrize(
    "member",
    [
        pytest.param(plain("../escape"), id="a way up"),
        pytest.param(plain("a/../../escape"), id="a way up in the middle"),
        pytest.param(plain("/tmp/escape"), id="absolute"),
        pytest.param(plain("a\\b"), id="a backslash"),
        pytest.param(special("../escape", tarfile.DIRTYPE), id="a folder outside"),
        pytest.param(special("link", tarfile.SYMTYPE, "/etc/passwd"), id="a symbolic link"),
        pytest.param(special("link", tarfile.LNKTYPE, "config.json"), id="a hard link"),
        pytest.param(special("dev", tarfile.CHRTYPE), id="a character device"),
        pytest.param(special("dev", tarfile.BLKTYPE), id="a block device"),
        pytest.param(special("pipe", tarfile.FIFOTYPE), id="a pipe"),
        pytest.param(plain("config.json"), id="a file that is there already"),
        pytest.param(plain("config.json/x"), id="a file below a file"),
    ],
)
def test_refuses_members_that_are_not_plain_files_in_the_folder(unpacked, tmp_path, member):
    with pytest.raises(FetchError) as refused:
        unpacked(packed(plain("config.json"), member, plain("last")))
    assert refused.value.reason is TerminationClass.SOURCE_NOT_ALLOWED
    files = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert files == {Path("archive"), Path("into/config.json")}


def test_a_member_that_does_not_fit_the_disk_is_refused_before_it_is_written(unpacked, tmp_path):
    member = tarfile.TarInfo("model.safetensors")
    member.size = 1 << 60
    header = member.tobuf(tarfile.GNU_FORMAT)
    with pytest.raises(FetchError) as full:
        unpacked(header + b"x" * 512)
    assert full.value.reason is TerminationClass.DISK_FULL
    assert str(1 << 60) in full.value.message
    assert list((tmp_path / "into").iterdir()) == []


def test_a_sparse_member_is_refused(unpacked):
    member = tarfile.TarInfo("model.safetensors")
    member.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.realsize": str(1 << 50),
    }
    body = b"0\n".ljust(512, b"\0")
    member.size = len(body)
    with pytest.raises(FetchError) as refused:
        unpacked(member.tobuf(tarfile.PAX_FORMAT) + body + b"\0" * 1024)
    assert refused.value.reason is TerminationClass.SOURCE_NOT_ALLOWED


def test_a_header_that_claims_gigabytes_is_not_read(unpacked):
    member = tarfile.TarInfo("pax")
    member.type, member.size = tarfile.XHDTYPE, 1 << 33
    with pytest.raises(FetchError) as refused:
        unpacked(gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + b"\0" * (1 << 20)))
    assert refused.value.reason is TerminationClass.WEIGHTS_CORRUPT


def test_an_archive_without_files_is_missing_weights(unpacked):
    with pytest.raises(FetchError) as refused:
        unpacked(packed())
    assert refused.value.reason is TerminationClass.WEIGHTS_MISSING


@pytest.mark.parametrize(
    "archive",
    [
        pytest.param(b"<html>not found</html>", id="a web page"),
        pytest.param(b"", id="nothing"),
        pytest.param(packed_files(FILES)[:1536], id="cut between two files"),
        pytest.param(packed_files(FILES)[:20_000], id="cut in a file"),
        pytest.param(packed_files(FILES, zipped=True)[:-200], id="cut in the compression"),
        pytest.param(b"\x1f\x8bnonsense", id="nothing compressed"),
        pytest.param(
            packed_files(FILES)[:1024] + b"y" * 512 + bytes(10_240), id="a broken header in the middle"
        ),
    ],
)
def test_what_is_no_whole_archive_is_corrupt(unpacked, archive):
    with pytest.raises(FetchError) as refused:
        unpacked(archive)
    assert refused.value.reason is TerminationClass.WEIGHTS_CORRUPT
    assert refused.value.message.startswith("https://h/m.tar: the archive cannot be read: ")


@settings(max_examples=60)
@given(st.data())
def test_a_cut_archive_is_never_taken_for_a_whole_one(data):
    archive = packed_files({f"f{n}": bytes([n]) * 700 for n in range(3)})
    useful = 3 * (512 + 1024)
    cut = data.draw(st.integers(0, useful - 1))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "archive").write_bytes(archive[:cut])
        with pytest.raises(FetchError):
            unpack(Path(folder, "archive"), Path(folder, "into"), uri="https://h/m.tar")


@pytest.fixture
def archive_uri(web):
    web.files["/m/chat.tar.gz"] = packed_files({f"chat/{p}": c for p, c in FILES.items()}, zipped=True)
    return f"{web.url}/m/chat.tar.gz"


async def test_fetches_an_archive(archive_uri, fetch_uri, content, place):
    await fetch_uri(archive_uri)
    assert content() == FILES
    assert sorted(path.name for path in place.folder.parent.iterdir()) == ["manifest.json", "model"]


async def test_a_broken_archive_download_goes_on_only_at_the_same_etag(web, archive_uri, fetch_uri, content):
    web.fail("GET /m/chat.tar.gz", Fault(drop_after=300))
    await fetch_uri(archive_uri)
    resumed = [request for request in web.requests if "range" in request.headers]
    assert [(r.headers["range"], r.headers["if-range"][0]) for r in resumed] == [("bytes=300-", '"')]
    assert content() == FILES


async def test_another_digest_than_the_one_asked_for_leaves_no_model(archive_uri, fetch_uri, place):
    with pytest.raises(FetchError) as refused:
        await fetch_uri(archive_uri, sha256="0" * 64)
    assert refused.value.reason is TerminationClass.WEIGHTS_CORRUPT
    assert not place.folder.exists()
    assert not place.manifest.exists()
