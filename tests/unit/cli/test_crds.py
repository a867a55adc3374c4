"""`stoker crds` and the files of the repository that it makes."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from stoker.api import reasons
from stoker.cli import main
from stoker.cli.crds import conditions_page, generated_files

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", generated_files())
def test_the_repository_has_what_make_crds_writes(name):
    assert (ROOT / name).read_text() == generated_files()[name], "run `make crds`"


def test_no_older_definition_is_left():
    on_disk = {f"crds/{path.name}" for path in (ROOT / "crds").iterdir()}
    assert on_disk == {name for name in generated_files() if name.startswith("crds/")}


def test_prints_the_definitions_for_kubectl():
    result = CliRunner().invoke(main, ["crds"])
    assert result.exit_code == 0
    assert [document["spec"]["names"]["kind"] for document in yaml.safe_load_all(result.output)] == [
        "InferenceService",
        "NodeCache",
    ]


def test_writes_a_checkout(tmp_path):
    result = CliRunner().invoke(main, ["crds", "--checkout", str(tmp_path)])
    assert result.exit_code == 0
    written = {
        str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*.*") if path.is_file()
    }
    assert written == generated_files()


def test_no_definition_refers_to_a_part_of_itself():
    assert not any(
        isinstance(token, yaml.AnchorToken | yaml.AliasToken)
        for name, text in generated_files().items()
        if name.endswith(".yaml")
        for token in yaml.scan(text)
    )


@pytest.mark.parametrize("word", [word for words in reasons.VOCABULARY for word in words])
def test_the_page_of_conditions_has_every_word(word):
    assert f"| `{word}` | {word.meaning} | {word.what_to_do} |\n" in conditions_page()
