"""The examples read as the models understand them, and need nothing that does not exist."""

from pathlib import Path

import pytest
import yaml

from stoker.api.names import API_VERSION, KIND
from stoker.api.v1alpha1 import InferenceService

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))


def services(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document["kind"] == KIND]


def unknown(given, read):
    """Fields of `given` that are not in `read`, by path."""
    if isinstance(given, dict) and isinstance(read, dict):
        for key, value in given.items():
            yield from (f"{key}.{path}" for path in unknown(value, read[key])) if key in read else (key,)
    elif isinstance(given, list):
        for one, other in zip(given, read, strict=True):
            yield from unknown(one, other)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_only_fields_that_exist(path):
    for document in services(path):
        assert document["apiVersion"] == API_VERSION
        read = InferenceService.model_validate(document).model_dump(mode="json", by_alias=True)
        assert list(unknown(document["spec"], read["spec"])) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_begins_with_what_it_shows(path):
    assert path.read_text().startswith("# ")


def test_the_minimal_example_is_five_lines_of_spec():
    (minimal,) = [path for path in EXAMPLES if path.stem == "minimal"]
    _, spec = minimal.read_text().split("spec:\n")
    assert len(spec.splitlines()) == 5
