import pytest
from e2e.cluster.image_inputs import copied, inputs_hash

DOCKERFILE = """\
ARG BASE=python:3.12-slim
FROM ${BASE} AS build
COPY pyproject.toml README.md ./
COPY --chown=1000 \\
     operator/ operator/
FROM ${BASE}
COPY --from=build /opt/stoker /opt/stoker
# COPY not/this /
"""


def test_finds_what_is_copied_but_not_from_another_stage():
    assert copied(DOCKERFILE) == ["pyproject.toml", "README.md", "operator/"]


@pytest.fixture
def root(tmp_path):
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    (tmp_path / ".dockerignore").write_text("# comment\n**/__pycache__\noperator/notes\n")
    for name in ("pyproject.toml", "README.md", "operator/stoker/cli.py", "tests/test_cli.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def hashed(root, base="base"):
    return inputs_hash(root, root / "Dockerfile", base=base)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("Dockerfile", id="the Dockerfile"),
        pytest.param("README.md", id="a file that is copied by name"),
        pytest.param("operator/stoker/cli.py", id="a file in a folder that is copied"),
        pytest.param("operator/stoker/new.py", id="a new file in it"),
    ],
)
def test_a_change_of_an_input_changes_the_hash(root, name):
    before = hashed(root)
    with (root / name).open("a") as file:
        file.write("# changed\n")
    assert hashed(root) != before


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("tests/test_cli.py", id="a file that is not copied"),
        pytest.param("operator/stoker/__pycache__/cli.pyc", id="ignored in any folder"),
        pytest.param("operator/notes/today.md", id="an ignored folder"),
    ],
)
def test_what_the_build_does_not_see_changes_nothing(root, name):
    before = hashed(root)
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text("changed")
    assert hashed(root) == before


def test_a_file_that_becomes_executable_changes_the_hash(root):
    before = hashed(root)
    (root / "README.md").chmod(0o755)
    assert hashed(root) != before


def test_another_base_changes_the_hash(root):
    assert hashed(root, base="one") != hashed(root, base="two")
