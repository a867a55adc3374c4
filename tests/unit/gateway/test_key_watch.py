import asyncio
import hashlib
import json

import pytest

from stoker.gateway import key_watch
from stoker.gateway.errors import Rejection
from stoker.gateway.key_watch import KeyWatch


def entry(secret, **limits):
    return json.dumps({"sha256": [hashlib.sha256(secret).hexdigest()]} | limits)


def whose(watch, secret):
    found = watch.ring.authenticate(b"Bearer " + secret)
    return None if isinstance(found, Rejection) else found.name


async def becomes(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it did not come about")


@pytest.fixture
async def followed(tmp_path, monkeypatch):
    """A watch of a folder with one key, by a number of processes that a test changes."""
    monkeypatch.setattr(key_watch, "_LOOK_S", 0.005)
    (tmp_path / "team-a").write_text(entry(b"first", concurrency=4))
    processes = [1]
    watch = KeyWatch(tmp_path, replicas=lambda: processes[0])
    watch.processes = processes
    task = asyncio.create_task(watch.follow())
    yield watch
    task.cancel()


async def test_a_key_that_is_added_lets_its_client_in(followed, tmp_path):
    assert (whose(followed, b"first"), whose(followed, b"second")) == ("team-a", None)
    (tmp_path / "team-b").write_text(entry(b"second"))
    await becomes(lambda: whose(followed, b"second") == "team-b")
    assert whose(followed, b"first") == "team-a"


async def test_limits_are_shared_anew_when_a_gateway_comes(followed):
    key = followed.ring.authenticate(b"Bearer first")
    for _ in range(4):
        key.admit(0, 0.0, lambda: 0.0)
    assert "share" not in key.admit(0, 0.0, lambda: 0.0).message
    followed.processes[0] = 2
    await becomes(lambda: "share of 4" in key.admit(0, 0.0, lambda: 0.0).message)


async def test_a_folder_that_is_away_leaves_the_keys_as_they_are(followed, tmp_path, caplog):
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    await becomes(lambda: caplog.records)
    assert whose(followed, b"first") == "team-a"
    tmp_path.with_name("elsewhere").rename(tmp_path)


async def test_a_faulty_entry_is_said_and_the_others_work(followed, tmp_path, caplog):
    (tmp_path / "broken").write_text("{}")
    await becomes(lambda: caplog.records)
    assert "The entry broken of the keys is not valid" in caplog.records[0].message
    assert whose(followed, b"first") == "team-a"


def test_a_folder_that_is_not_there_is_an_error_at_once(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        KeyWatch(tmp_path / "none", replicas=lambda: 1)
