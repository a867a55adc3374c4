"""The layout of the repository holds what the imports need."""

import operator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_operator_folder_is_not_a_package():
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_import_operator_is_the_standard_library():
    assert ROOT not in Path(operator.__file__).parents


def test_no_module_outgrows_400_lines():
    folders = ("operator", "serving_image", "e2e")
    modules = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    too_long = {str(p.relative_to(ROOT)): n for p in modules if (n := len(p.read_text().splitlines())) > 400}
    assert too_long == {}
