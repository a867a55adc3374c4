import subprocess
import tempfile
from hashlib import sha256
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.fetch.manifest import (
    FileDigest,
    Manifest,
    digest_of,
    read_manifest,
    same_digest,
    write_manifest,
)
from stoker.fetch.paths import why_refused

BY_HAND = "find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum"

names = st.text(st.characters(exclude_characters="/", exclude_categories=("Cs",)), min_size=1, max_size=20)
paths = st.lists(names, min_size=1, max_size=3).map("/".join).filter(lambda path: why_refused(path) is None)


def described(path: str, content: bytes) -> FileDigest:
    return FileDigest(path=path, size_bytes=len(content), sha256=sha256(content).hexdigest())


@settings(max_examples=30)
@given(st.dictionaries(paths, st.binary(max_size=40), min_size=1, max_size=6))
def test_the_digest_is_what_the_shell_says(files):
    with tempfile.TemporaryDirectory() as folder:
        kept = []
        for path, content in files.items():
            target = Path(folder, path)
            if any(parent.is_file() for parent in target.parents) or target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            kept.append(described(path, content))
        shell = subprocess.run(
            ["bash", "-c", BY_HAND], cwd=folder, capture_output=True, text=True, check=True
        )
    assert digest_of(tuple(kept)) == "sha256:" + shell.stdout.split()[0]


@given(st.lists(st.tuples(paths, st.binary(max_size=8)), unique_by=lambda item: item[0], max_size=4))
def test_the_digest_does_not_depend_on_the_order_of_the_files(items):
    files = [described(path, content) for path, content in items]
    assert digest_of(tuple(files)) == digest_of(tuple(reversed(files)))


@given(st.dictionaries(paths, st.binary(max_size=8), min_size=1, max_size=3), st.data())
def test_any_other_content_or_name_has_another_digest(files, data):
    before = digest_of(tuple(described(path, content) for path, content in files.items()))
    changed = dict(files)
    path = data.draw(st.sampled_from(sorted(files)))
    if data.draw(st.booleans()):
        changed[path] += b"x"
    else:
        changed[f"{path}x"] = changed.pop(path)
    after = digest_of(tuple(described(path, content) for path, content in changed.items()))
    assert (before == after) == (changed == files)


def test_digests_compare_with_or_without_prefix_and_in_any_case():
    assert same_digest("sha256:AB", "ab")
    assert not same_digest("sha256:ab", "ac")


def test_a_manifest_reads_back_as_it_was_written(tmp_path):
    file = described("config.json", b"{}")
    manifest = Manifest(
        uri="hf://a/b", revision="main", model_version="c0ffee", digest=digest_of((file,)), files=(file,)
    )
    write_manifest(manifest, tmp_path / "manifest.json")
    assert read_manifest(tmp_path / "manifest.json") == manifest
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_a_manifest_that_is_cut_or_foreign_counts_as_none(tmp_path):
    (tmp_path / "cut.json").write_text('{"digest": "sha2')
    (tmp_path / "foreign.json").write_text('["a list"]')
    assert read_manifest(tmp_path / "cut.json") is None
    assert read_manifest(tmp_path / "foreign.json") is None
    assert read_manifest(tmp_path / "absent.json") is None
