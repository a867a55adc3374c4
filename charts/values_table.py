"""Writes the table of values in `charts/stoker/README.md` from the comments of `values.yaml`.

Run by `make chart`; a test fails when the two differ. A comment belongs to the value whose dotted name it
starts with, so that a comment that went astray is noticed instead of describing its neighbour.

Rejected: helm-docs, a binary to install for forty lines of text.
"""

import json
import re
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parent / "stoker"
_KEY = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z]\w*):")
_TABLE = re.compile(r"(?<=<!-- values -->\n).*(?=<!-- end of values -->)", re.DOTALL)


def descriptions(values_yaml: str) -> dict[str, str]:
    """What the comments say, by the dotted name of the value."""
    found: dict[str, str] = {}
    comment: list[str] = []
    parents: list[str] = []
    for line in values_yaml.splitlines():
        if line.lstrip().startswith("#"):
            comment.append(line.lstrip(" #"))
            continue
        if key := _KEY.match(line):
            parents = [*parents[: len(key["indent"]) // 2], key["key"]]
            name, _, text = " ".join(comment).partition(": ")
            if name == ".".join(parents):
                found[name] = text
        comment = []
    return found


def value_at(values: dict[str, Any], name: str) -> Any:
    """The default of the value with this dotted name."""
    for key in name.split("."):
        values = values[key]
    return values


def with_table(readme: str, values_yaml: str) -> str:
    """The README with its table made anew."""
    values = yaml.safe_load(values_yaml)
    rows = [
        f"| `{name}` | `{json.dumps(value_at(values, name))}` | {text[0].upper()}{text[1:]} |\n"
        for name, text in descriptions(values_yaml).items()
    ]
    table = "| value | default | what it does |\n|---|---|---|\n" + "".join(rows)
    return _TABLE.sub(lambda _: table, readme)


if __name__ == "__main__":
    readme = CHART / "README.md"
    readme.write_text(with_table(readme.read_text(), (CHART / "values.yaml").read_text()))
