import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.reasons import TerminationClass
from stoker.fetch.errors import FetchError
from stoker.fetch.paths import check_paths, why_refused


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("../config.json", id="a way up"),
        pytest.param("a/../../b", id="a way up in the middle"),
        pytest.param("/etc/passwd", id="absolute"),
        pytest.param("", id="empty"),
        pytest.param("a//b", id="an empty part"),
        pytest.param("a/", id="a slash at the end"),
        pytest.param("./a", id="a part that is a dot"),
        pytest.param("a\\b", id="a backslash"),
        pytest.param("..\\a", id="a way up on Windows"),
        pytest.param("-rf", id="a dash in front"),
        pytest.param("a\0b", id="a zero byte"),
        pytest.param("a\nb", id="a line break"),
        pytest.param("a\x7fb", id="a control character"),
        pytest.param("a\udcffb", id="bytes that are not UTF-8"),
        pytest.param("x" * 256, id="a name that no file system holds"),
        pytest.param("/".join(["x" * 200] * 6), id="a path that is too long"),
    ],
)
def test_refuses_names_that_lead_elsewhere(path):
    with pytest.raises(FetchError) as refused:
        check_paths(["config.json", path], uri="hf://a/b")
    assert refused.value.reason is TerminationClass.SOURCE_NOT_ALLOWED
    assert refused.value.message.startswith("hf://a/b: the file name ")
    refused.value.message.encode()


@pytest.mark.parametrize(
    ("paths", "why"),
    [
        pytest.param(["a", "b", "a"], "is listed twice", id="the same path twice"),
        pytest.param(["a/b/c", "a"], "which is a file", id="a file that is a folder of another"),
    ],
)
def test_refuses_paths_that_cannot_be_together(paths, why):
    with pytest.raises(FetchError, match=why):
        check_paths(paths, uri="hf://a/b")


def test_takes_what_repositories_really_hold():
    check_paths(
        ["config.json", "model-00001-of-00004.safetensors", "a b/模型.json", "..hidden", "x..y"],
        uri="hf://a/b",
    )


@given(st.text(max_size=60))
def test_what_is_taken_stays_below_the_folder(path):
    if why_refused(path) is not None:
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        target = root / path
        assert target.resolve() != root
        assert root in target.resolve().parents
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
        assert [found for found in root.rglob("*") if found.is_file()] == [target]
