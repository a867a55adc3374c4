import pytest

from stoker.gateway.errors import Rejection
from stoker.gateway.keys import Key, KeySpec
from stoker.gateway.rendezvous import key_of
from stoker.gateway.wishes import read_wishes

KEY = Key("team-a", KeySpec(sha256=("0" * 64,), max_priority=5))


@pytest.mark.parametrize(
    ("headers", "key", "workload"),
    [
        pytest.param({}, None, "demo", id="the namespace where nobody says more"),
        pytest.param({}, KEY, "team-a", id="the key's name"),
        pytest.param({b"x-stoker-workload": b"batch"}, KEY, "batch", id="what the request says before all"),
        pytest.param({b"x-stoker-workload": b"\xe9" * 999}, None, "é" * 128, id="any bytes, cut"),
    ],
)
def test_who_a_request_is_for(headers, key, workload):
    assert read_wishes(headers).of(namespace="demo", key=key)[0] == workload


@pytest.mark.parametrize(
    ("sent", "key", "priority"),
    [
        pytest.param(None, KEY, 0, id="none is the lowest"),
        pytest.param(b"7", None, 7, id="any without a key"),
        pytest.param(b"7", KEY, 5, id="at most what the key may"),
        pytest.param(b"3", KEY, 3, id="less than the key may"),
    ],
)
def test_how_urgent_it_is(sent, key, priority):
    headers = {} if sent is None else {b"x-stoker-priority": sent}
    assert read_wishes(headers).of(namespace="demo", key=key)[1] == priority


@pytest.mark.parametrize("sent", [b"", b"10", b"-1", b"high", b"\xb2"])
def test_a_priority_that_is_none_is_refused(sent):
    refused = read_wishes({b"x-stoker-priority": sent})
    assert isinstance(refused, Rejection)
    assert (refused.status, refused.param) == (400, "x-stoker-priority")


def test_the_session_is_what_the_client_calls_it():
    assert read_wishes({b"x-session-id": b"s1"}).session_key == key_of(b"s1")
    assert read_wishes({}).session_key is None
