import hashlib
import json
from pathlib import Path

import pytest
import yaml

from stoker.gateway.errors import Rejection
from stoker.gateway.keys import Key, KeyLease, KeyRing, KeySpec

SALT = b"0123456789abcdef"


def digest(key):
    return hashlib.sha256(key.encode()).hexdigest()


def entry(*keys, **limits):
    return json.dumps({"sha256": [digest(key) for key in keys], **limits}).encode()


def ring_of(replicas=1, **entries):
    ring = KeyRing(salt=SALT)
    assert ring.update(entries, replicas=replicas) == ()
    return ring


def name_of(ring, authorization):
    found = ring.authenticate(authorization)
    return found.name if isinstance(found, Key) else found.code.value


@pytest.mark.parametrize(
    ("authorization", "name"),
    [
        pytest.param(b"Bearer key-a", "a", id="a key that is known"),
        pytest.param(b"bearer key-a", "a", id="the scheme in any case"),
        pytest.param(b"Bearer   key-a ", "a", id="with spaces around it"),
        pytest.param(b"Bearer key-b2", "b", id="the second of two that count as one"),
        pytest.param(b"Bearer key-c", "unauthorized", id="a key that is not known"),
        pytest.param(b"Bearer ", "unauthorized", id="an empty key"),
        pytest.param(b"Bearer " + b"x" * 10_000, "unauthorized", id="a key too long to be one"),
        pytest.param(b"Basic a2V5LWE=", "unauthorized", id="another scheme"),
        pytest.param(b"key-a", "unauthorized", id="no scheme"),
        pytest.param(b"Bearer \xff\xfe", "unauthorized", id="bytes that are no text"),
        pytest.param(None, "unauthorized", id="no header"),
        pytest.param(b"Bearer " + digest("key-a").encode(), "unauthorized", id="the digest is not the key"),
    ],
)
def test_who_sends_a_request(authorization, name):
    ring = ring_of(a=entry("key-a"), b=entry("key-b1", "key-b2"))
    assert name_of(ring, authorization) == name


def test_a_refusal_says_what_to_send_and_never_what_was_sent():
    ring = ring_of(a=entry("key-a"))
    missing, wrong = ring.authenticate(None), ring.authenticate(b"Bearer secret-thing")
    assert (missing.status, wrong.status) == (401, 401)
    assert "Authorization: Bearer KEY" in missing.message
    assert "secret-thing" not in wrong.message
    assert wrong.retry_after is None


def test_without_entries_nobody_is_let_in():
    assert name_of(ring_of(), b"Bearer key-a") == "unauthorized"


def test_a_removed_key_is_not_known_any_more_and_a_changed_one_is():
    ring = ring_of(a=entry("key-a"), b=entry("key-b"))
    ring.update({"b": entry("key-b2")}, replicas=1)
    assert [name_of(ring, b"Bearer " + k) for k in (b"key-a", b"key-b", b"key-b2")] == [
        "unauthorized",
        "unauthorized",
        "b",
    ]


@pytest.mark.parametrize(
    ("value", "part"),
    [
        pytest.param(b"key-in-clear", "Invalid JSON", id="no JSON"),
        pytest.param(b"\xff\xfe", "Invalid JSON", id="no text"),
        pytest.param(b"{}", "sha256: Field required", id="no digest"),
        pytest.param(b'{"sha256": ["key-in-clear"]}', "sha256.0: ", id="a key where its digest belongs"),
        pytest.param(b'{"sha256": []}', "sha256: ", id="no digests"),
        pytest.param(entry("k", requestPerMinute=5), "requestPerMinute: ", id="a limit with a misspelt name"),
        pytest.param(entry("k", concurrency=0), "concurrency: ", id="a limit of nothing"),
        pytest.param(entry("k", maxPriority=10), "maxPriority: ", id="a priority that there is not"),
    ],
)
def test_a_faulty_entry_is_named_and_the_others_work(value, part):
    ring = KeyRing(salt=SALT)
    (problem,) = ring.update({"a": value, "b": entry("key-b")}, replicas=1)
    assert problem.startswith("The entry a of the keys is not valid")
    assert part in problem
    assert "key-in-clear" not in problem
    assert name_of(ring, b"Bearer key-b") == "b"


def test_two_entries_with_one_digest_are_named():
    ring = KeyRing(salt=SALT)
    (problem,) = ring.update({"b": entry("k"), "a": entry("k")}, replicas=1)
    assert problem == "The entries a and b of the keys have the same digest; its requests count as a's."
    assert name_of(ring, b"Bearer k") == "a"


def test_one_digest_twice_in_an_entry_is_no_problem():
    assert KeyRing(salt=SALT).update({"a": entry("k", "k")}, replicas=1) == ()


def a_key(replicas=1, **limits):
    key = Key("team", KeySpec(sha256=(digest("k"),)))
    key.set(KeySpec(sha256=(digest("k"),), **limits), replicas=replicas)
    return key


def admit(key, tokens=0, now_s=0.0, spread=0.0):
    return key.admit(tokens, now_s, lambda: spread)


def test_a_key_without_limits_is_not_limited():
    key = a_key()
    assert all(isinstance(admit(key, tokens=10**6), KeyLease) for _ in range(1000))


def test_requests_in_a_minute_are_limited_with_the_time_until_the_next():
    key = a_key(requests_per_minute=2)
    for now_s in (0.0, 10.0):
        admit(key, now_s=now_s).end(0, now_s)
    refused = admit(key, now_s=20.0, spread=0.5)
    assert (refused.status, refused.code) == (429, "rate_limited")
    assert refused.retry_after_s == 40 * 1.25
    assert refused.message == "The key team has used up its 2 requests a minute."
    assert isinstance(admit(key, now_s=60.0), KeyLease)


def test_what_is_refused_does_not_count():
    key = a_key(requests_per_minute=1)
    admit(key)
    for _ in range(5):
        assert isinstance(admit(key, now_s=30.0), Rejection)
    assert isinstance(admit(key, now_s=60.0), KeyLease)


def test_requests_at_the_same_time_are_limited_until_one_ends():
    key = a_key(concurrency=2)
    first, _ = admit(key), admit(key)
    refused = admit(key)
    assert refused.message == "The key team has used up its 2 requests at the same time."
    assert refused.retry_after_s == 1.0
    first.end(0, 5.0)
    assert isinstance(admit(key), KeyLease)
    assert key.in_flight == 2


def test_tokens_are_reserved_and_corrected_by_what_was_used():
    key = a_key(tokens_per_minute=1000)
    lease = admit(key, tokens=900)
    refused = admit(key, tokens=200, now_s=1.0)
    assert refused.message == "The key team has used up its 1000 tokens a minute."
    assert refused.retry_after_s == 59
    lease.end(100, 2.0)
    assert isinstance(admit(key, tokens=900, now_s=3.0), KeyLease)


def test_tokens_that_were_not_known_before_hold_up_the_next_request():
    key = a_key(tokens_per_minute=1000)
    admit(key).end(5000, 1.0)
    assert admit(key, now_s=2.0).retry_after_s == 58


def test_a_request_for_more_tokens_than_the_limit_is_told_that_waiting_does_not_help():
    refused = admit(a_key(tokens_per_minute=1000), tokens=1001)
    assert refused.retry_after is None
    assert "ask for fewer, such as with `max_tokens`" in refused.message


def test_the_longest_of_several_waits_is_told():
    key = a_key(concurrency=1, requests_per_minute=1, tokens_per_minute=10)
    admit(key, tokens=10, now_s=10.0)
    refused = admit(key, now_s=30.0)
    assert refused.retry_after_s == 40
    assert "requests a minute" in refused.message


def test_each_gateway_replica_takes_its_share():
    key = a_key(replicas=3, requests_per_minute=7, concurrency=2)
    admit(key).end(0, 0.0)
    admit(key).end(0, 0.0)
    refused = admit(key)
    assert "share of 7 requests a minute in this gateway replica, which is 2" in refused.message


def test_a_request_larger_than_the_share_of_tokens_waits_until_all_of_it_is_free():
    key = a_key(replicas=3, tokens_per_minute=900)
    assert isinstance(admit(key, tokens=800), KeyLease)
    assert admit(key, tokens=800, now_s=1.0).retry_after_s == 59
    assert isinstance(admit(key, tokens=800, now_s=60.0), KeyLease)


def test_what_was_used_counts_after_a_reload_too():
    ring = ring_of(a=entry("k", requestsPerMinute=1))
    lease = admit(ring.authenticate(b"Bearer k"))
    ring.update({"a": entry("k", requestsPerMinute=1, concurrency=9)}, replicas=1)
    key = ring.authenticate(b"Bearer k")
    assert isinstance(admit(key, now_s=30.0), Rejection)
    lease.end(0, 31.0)
    assert key.in_flight == 0


@pytest.mark.parametrize(
    ("max_priority", "asked", "given"),
    [
        pytest.param(9, 7, 7, id="no cap"),
        pytest.param(5, 7, 5, id="a higher one counts as the cap"),
        pytest.param(5, 3, 3, id="a lower one stays"),
    ],
)
def test_the_priority_is_capped_per_key(max_priority, asked, given):
    assert a_key(max_priority=max_priority).capped(asked) == given


def test_the_keys_of_the_documentation_are_valid():
    page = (Path(__file__).parents[3] / "docs" / "api-keys.md").read_text()
    (manifest,) = (block.partition("\n")[2] for block in page.split("```") if block.startswith("yaml"))
    entries = yaml.safe_load(manifest)["stringData"]
    assert len(entries) == 2
    assert KeyRing(salt=SALT).update({k: v.encode() for k, v in entries.items()}, replicas=1) == ()


def test_the_documentation_names_every_field():
    page = (Path(__file__).parents[3] / "docs" / "api-keys.md").read_text()
    rows = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    assert rows == {field.alias for field in KeySpec.model_fields.values()}
