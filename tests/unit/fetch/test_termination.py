import json

from hypothesis import given
from hypothesis import strategies as st

from stoker.api.reasons import TerminationClass
from stoker.fetch import termination
from stoker.fetch.errors import FetchError
from stoker.fetch.manifest import FileDigest, Manifest


def test_says_what_was_fetched():
    files = tuple(FileDigest(path=name, size_bytes=10, sha256="0" * 64) for name in "ab")
    manifest = Manifest(uri="hf://a/b", revision="", model_version="c0ffee", digest="sha256:1", files=files)
    assert termination.success(manifest, seconds=1.26) == {
        "digest": "sha256:1",
        "modelVersion": "c0ffee",
        "bytes": 20,
        "files": 2,
        "seconds": 1.3,
    }


def test_says_the_class_the_sentence_and_the_advice():
    error = FetchError(TerminationClass.WEIGHTS_MISSING, "hf://a/b does not exist (404)")
    assert termination.failure(error) == {
        "reason": "WeightsMissing",
        "message": "hf://a/b does not exist (404)",
        "fix": TerminationClass.WEIGHTS_MISSING.what_to_do,
    }


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=50), st.integers(1, 400))
def test_what_kubernetes_keeps_is_always_a_whole_object(tmp_path_factory, text, times):
    message = text * times
    path = tmp_path_factory.mktemp("termination") / "log"
    error = FetchError(TerminationClass.WEIGHTS_CORRUPT, message)
    termination.write(termination.failure(error), path)
    kept = json.loads(path.read_bytes()[:4096])
    assert kept["reason"] == "WeightsCorrupt"
    assert kept["fix"] == error.fix
    assert kept["message"] == message or message.startswith(kept["message"].removesuffix("..."))
