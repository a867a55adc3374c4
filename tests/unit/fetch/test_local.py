import os

import pytest

from stoker.api.reasons import TerminationClass
from stoker.fetch.download import Wish, present
from stoker.fetch.errors import FetchError
from stoker.fetch.local import verify_in_place
from stoker.fetch.progress import Progress

WISH = Wish(uri="pvc://models/chat")
QUIET = Progress(say=lambda line: None)


@pytest.fixture
def claim(place):
    (place.folder / "sub").mkdir(parents=True)
    (place.folder / "config.json").write_bytes(b"{}")
    (place.folder / "sub" / "model.safetensors").write_bytes(bytes(5_000_000))
    return place


async def test_files_in_place_get_a_manifest_and_stay_untouched(claim):
    for path in (claim.folder, claim.folder / "sub"):
        path.chmod(0o555)
    manifest = await verify_in_place(wish=WISH, place=claim, progress=QUIET)
    assert [file.path for file in manifest.files] == ["config.json", "sub/model.safetensors"]
    assert manifest.size_bytes == 5_000_002
    assert present(WISH, claim) == manifest


async def test_the_digest_that_was_asked_for_is_held(claim):
    found = await verify_in_place(wish=WISH, place=claim, progress=QUIET)
    claim.manifest.unlink()
    same = Wish(uri=WISH.uri, sha256=found.digest)
    assert await verify_in_place(wish=same, place=claim, progress=QUIET) == found
    other = Wish(uri=WISH.uri, sha256="sha256:" + "0" * 64)
    with pytest.raises(FetchError) as corrupt:
        await verify_in_place(wish=other, place=claim, progress=QUIET)
    assert corrupt.value.reason is TerminationClass.WEIGHTS_CORRUPT
    assert found.digest in corrupt.value.message
    assert "0" * 64 in corrupt.value.message


@pytest.mark.parametrize(
    ("target", "is_folder"),
    [
        pytest.param("config.json", False, id="to a file inside"),
        pytest.param("/etc", True, id="to a folder outside"),
        pytest.param("nowhere", False, id="to nothing"),
    ],
)
async def test_links_are_refused(claim, target, is_folder):
    (claim.folder / "link").symlink_to(target, target_is_directory=is_folder)
    with pytest.raises(FetchError) as refused:
        await verify_in_place(wish=WISH, place=claim, progress=QUIET)
    assert refused.value.reason is TerminationClass.SOURCE_NOT_ALLOWED
    assert "`link`" in refused.value.message


async def test_pipes_are_refused_and_not_waited_for(claim):
    os.mkfifo(claim.folder / "pipe")
    with pytest.raises(FetchError, match="`pipe` is neither a plain file nor a folder"):
        await verify_in_place(wish=WISH, place=claim, progress=QUIET)


async def test_what_mkfs_leaves_at_the_top_of_a_claim_does_not_count(claim):
    before = await verify_in_place(wish=WISH, place=claim, progress=QUIET)
    (claim.folder / "lost+found").mkdir(mode=0o700)
    assert (await verify_in_place(wish=WISH, place=claim, progress=QUIET)).digest == before.digest


@pytest.mark.parametrize(
    "made", [pytest.param(False, id="no folder"), pytest.param(True, id="an empty folder")]
)
async def test_a_claim_without_the_model_is_missing_weights(place, made):
    if made:
        place.folder.mkdir(parents=True)
    with pytest.raises(FetchError) as missing:
        await verify_in_place(wish=WISH, place=place, progress=QUIET)
    assert missing.value.reason is TerminationClass.WEIGHTS_MISSING
