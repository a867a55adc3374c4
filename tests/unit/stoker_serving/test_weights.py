import hashlib
import json
import shutil
import subprocess

import pytest

from stoker_serving.termination import Fatal, Reason
from stoker_serving.weights import Weights, verify


def digest_by_hand(model):
    """The digest as a person makes it, with the tools that every Linux has."""
    command = "find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum"
    printed = subprocess.run(
        ["/bin/sh", "-c", command], cwd=model, capture_output=True, text=True, check=True
    ).stdout
    return f"sha256:{printed.split()[0]}"


@pytest.fixture
def volume(tmp_path):
    model = tmp_path / "model"
    (model / "sub").mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "Zeta.txt").write_text("z")
    (model / "sub" / "weights.safetensors").write_bytes(b"\0" * 1000)
    write_manifest(tmp_path)
    return tmp_path


def write_manifest(volume, **changes):
    model = volume / "model"
    files = [
        {
            "path": str(path.relative_to(model)),
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in model.rglob("*")
        if path.is_file()
    ]
    manifest = {"digest": digest_by_hand(model), "modelVersion": "v1", "uri": "hf://a/b", "files": files}
    (volume / "manifest.json").write_text(json.dumps(manifest | changes))


def failure(volume, digest=None):
    with pytest.raises(Fatal) as caught:
        verify(volume, digest=digest)
    return caught.value.failure


def test_weights_as_the_init_step_left_them_are_good(volume):
    digest = digest_by_hand(volume / "model")
    assert verify(volume, digest=digest) == Weights(digest=digest, model_version="v1")


def test_without_a_wanted_digest_the_manifests_own_is_taken(volume):
    assert verify(volume, digest=None).digest == digest_by_hand(volume / "model")


def test_a_wrong_digest_never_serves(volume):
    refused = failure(volume, digest="sha256:00")
    assert refused.reason is Reason.WEIGHTS_CORRUPT
    assert digest_by_hand(volume / "model") in refused.message
    assert "sha256:00" in refused.message


def test_no_manifest(tmp_path):
    refused = failure(tmp_path)
    assert refused.reason is Reason.WEIGHTS_MISSING
    assert str(tmp_path / "manifest.json") in refused.message


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        pytest.param(
            lambda volume: (volume / "model" / "config.json").unlink(),
            "not on the volume",
            id="a file is gone",
        ),
        pytest.param(
            lambda volume: (volume / "model" / "config.json").write_text("{} "),
            "has 3 bytes, and the manifest says 2",
            id="a file has another size",
        ),
        pytest.param(
            lambda volume: shutil.rmtree(volume / "model"), "not on the volume", id="no model at all"
        ),
        pytest.param(
            lambda volume: (volume / "manifest.json").write_text("{"), "can't be read", id="half a manifest"
        ),
        pytest.param(
            lambda volume: (volume / "manifest.json").write_text('{"digest": "x"}'),
            "can't be read",
            id="a manifest without files",
        ),
        pytest.param(
            lambda volume: write_manifest(volume, digest="sha256:12"),
            "do not add up",
            id="a digest that is not that of the files",
        ),
    ],
)
def test_damage_is_named(volume, damage, words):
    damage(volume)
    refused = failure(volume)
    assert refused.reason is Reason.WEIGHTS_CORRUPT
    assert words in refused.message
