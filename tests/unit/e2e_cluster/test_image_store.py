import pytest
from e2e.cluster import image_store


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def kept(tmp_path):
    store = tmp_path / "cache" / "image-store" / "image-abc"
    for file in ("content/blobs/sha256/1", "bolt/meta.db"):
        (store / file).parent.mkdir(parents=True)
        (store / file).write_text("as it was")
    return store


def test_holds_the_very_image_that_it_was_filled_with(kept):
    assert image_store.holds("abc")
    assert not image_store.holds("another")


def test_a_new_root_shares_blobs_and_has_databases_of_its_own(kept, tmp_path):
    root = tmp_path / "containerd"
    image_store.link_to(root)
    assert (root / "content/blobs/sha256/1").samefile(kept / "content/blobs/sha256/1")
    (root / "bolt/meta.db").write_text("changed by a node")
    assert (kept / "bolt/meta.db").read_text() == "as it was"


def test_a_root_that_is_there_stays_as_it_is(kept, tmp_path):
    root = tmp_path / "containerd"
    root.mkdir()
    image_store.link_to(root)
    assert list(root.iterdir()) == []


def test_without_a_store_a_node_starts_with_nothing(tmp_path):
    image_store.link_to(tmp_path / "containerd")
    assert not (tmp_path / "containerd").exists()
