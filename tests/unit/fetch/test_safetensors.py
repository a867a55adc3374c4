import struct

import pytest
from tests.unit.fetch.model_folders import EMBEDDING, HEAD, safetensors

from stoker.api.reasons import TerminationClass
from stoker.fetch.errors import FetchError
from stoker.fetch.safetensors import header_bytes, read_header

FILE = safetensors(EMBEDDING | HEAD)


def test_reads_types_and_shapes_without_the_weights():
    end = header_bytes(FILE[:8], what="x")
    header = read_header(FILE[:end], what="x", size_bytes=len(FILE))
    assert header.tensors == {
        "model.embed_tokens.weight": ("BF16", (16, 8)),
        "lm_head.weight": ("F8_E4M3", (16, 8)),
    }
    assert header.weights_bytes == len(FILE) - end == 384


def with_header(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"", "does not start with the length", id="empty"),
        pytest.param(b"PK\x03\x04" * 8, "does not start with the length", id="a pickle"),
        pytest.param(with_header(b"[]"), "is JSON and not an object", id="not an object"),
        pytest.param(with_header(b'{"a": 1}'), "the tensor `a`", id="a tensor that is a number"),
        pytest.param(
            with_header(b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}'),
            "the tensor `a`",
            id="a shape below zero",
        ),
        pytest.param(
            with_header(b'{"a": {"dtype": "F32", "shape": [true], "data_offsets": [0, 4]}}'),
            "the tensor `a`",
            id="a shape that is no number",
        ),
        pytest.param(FILE[:-1], "it is not there whole", id="cut off"),
    ],
)
def test_says_what_is_wrong_with_a_file(data, words):
    with pytest.raises(FetchError, match=words):
        read_header(data, what="model.safetensors", size_bytes=len(data))


def test_a_file_that_git_did_not_fetch_is_said():
    with pytest.raises(FetchError, match="pointer of Git LFS") as missing:
        header_bytes(b"version https://git-lfs.github.com/spec/v1", what="model.safetensors")
    assert missing.value.reason is TerminationClass.WEIGHTS_MISSING
