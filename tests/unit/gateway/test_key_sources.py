import base64
import os

import pytest

from stoker.gateway.key_sources import KeyFolder, entries_of_secret


def swap(folder, generation, **entries):
    """What the kubelet does: a new folder of files, and one link that is swapped to it."""
    data = folder / f"..{generation}"
    data.mkdir()
    for name, value in entries.items():
        (data / name).write_bytes(value)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    (folder / "..new").symlink_to(data.name)
    os.replace(folder / "..new", folder / "..data")
    for link in folder.iterdir():
        if link.is_symlink() and not link.exists():
            link.unlink()


def test_a_mounted_secret_is_read_once_for_each_change(tmp_path):
    folder = KeyFolder(tmp_path)
    swap(tmp_path, 1, a=b"1", b=b"2")
    assert folder.read_if_changed() == {"a": b"1", "b": b"2"}
    assert folder.read_if_changed() is None
    swap(tmp_path, 2, a=b"9")
    assert folder.read_if_changed() == {"a": b"9"}
    assert folder.read_if_changed() is None


def test_an_empty_folder_has_no_keys(tmp_path):
    assert KeyFolder(tmp_path).read_if_changed() == {}


def test_a_folder_that_is_not_there_is_said_and_may_come(tmp_path):
    folder = KeyFolder(tmp_path / "keys")
    with pytest.raises(OSError, match="keys"):
        folder.read_if_changed()
    (tmp_path / "keys").mkdir()
    assert folder.read_if_changed() == {}


@pytest.mark.parametrize(
    ("secret", "entries"),
    [
        pytest.param({"data": {"a": base64.b64encode(b"{}").decode()}}, {"a": b"{}"}, id="an entry"),
        pytest.param({"data": None}, {}, id="no data"),
        pytest.param({}, {}, id="nothing"),
    ],
)
def test_a_secret_of_the_api_server(secret, entries):
    assert entries_of_secret(secret) == entries
