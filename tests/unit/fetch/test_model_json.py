import math

import pytest

from stoker.api.reasons import TerminationClass
from stoker.fetch.errors import FetchError
from stoker.fetch.model_json import json_object


def test_reads_an_object_with_the_infinity_that_transformers_writes():
    found = json_object(b'{"time_step_limit": [0.0, Infinity], "hidden_size": 8}', what="config.json")
    assert found == {"time_step_limit": [0.0, math.inf], "hidden_size": 8}


@pytest.mark.parametrize(
    ("data", "reason", "words"),
    [
        (b"<html>", TerminationClass.MODEL_UNSUPPORTED, "is not JSON: Expecting value in line 1"),
        (b'{"a": 1,\n]', TerminationClass.MODEL_UNSUPPORTED, "in line 2"),
        (b"", TerminationClass.MODEL_UNSUPPORTED, "is not JSON"),
        (b"\xff\xfe", TerminationClass.MODEL_UNSUPPORTED, "not even text in UTF-8"),
        (b"[{}]", TerminationClass.MODEL_UNSUPPORTED, "not an object"),
        (b'{"a": {"b": 1, "c": 2, "b": 3}}', TerminationClass.MODEL_UNSUPPORTED, "has the key `b` twice"),
        (b'{"a": NaN}', TerminationClass.MODEL_UNSUPPORTED, "holds NaN"),
        (b'{"a":' * 100_000, TerminationClass.MODEL_UNSUPPORTED, "nested too deeply"),
        (b'{"a": ' + b"1" * 5000 + b"}", TerminationClass.MODEL_UNSUPPORTED, "integer string conversion"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            TerminationClass.WEIGHTS_MISSING,
            "a pointer of Git LFS",
        ),
    ],
)
def test_says_what_is_wrong_with_a_file(data, reason, words):
    with pytest.raises(FetchError, match=words) as refused:
        json_object(data, what="hf://acme/chat: config.json")
    assert refused.value.reason is reason
    assert refused.value.message.startswith("hf://acme/chat: config.json")
