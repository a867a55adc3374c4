"""The image has what the engine imports, and its README what the engine can do."""

import ast
import dataclasses
import re
import sys
from pathlib import Path

from e2e.stand_in_engine.faults import Crash, Faults
from e2e.stand_in_engine.profiles import PROFILES

FOLDER = Path(__file__).parents[3] / "e2e" / "stand_in_engine"


def imported():
    """Top-level packages that the engine's modules import."""
    names = set()
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module)
    return (
        {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - {"e2e", "stoker_serving"}
    )


def test_the_image_installs_everything_that_is_imported():
    installed = re.search(r"-c \S+ \\\n\s+(.*?) \\", (FOLDER / "Dockerfile").read_text())[1].split()
    assert imported() <= {name.replace("-", "_") for name in installed}


def test_the_readme_names_every_fault_crash_and_profile():
    text = (FOLDER / "README.md").read_text()
    names = [field.name for field in dataclasses.fields(Faults)] + list(Crash) + list(PROFILES)
    assert [name for name in names if f"`{name}`" not in text] == []
