"""Writes what is made from the chart: the table of values in its README, and `build/stoker.yaml`.

Run by `make chart`. A comment in `values.yaml` belongs to the value whose dotted name it starts with, so
that one that went astray is noticed instead of describing its neighbour. The manifest is for people
without Helm: namespace, CRDs and operator with the default values.

Rejected: helm-docs, a binary to install for thirty lines of text.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml
from e2e.cluster import programs

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "stoker"
MANIFEST = ROOT / "build" / "stoker.yaml"
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


def with_table(readme: str, values_yaml: str) -> str:
    """The README with its table made anew."""
    values = yaml.safe_load(values_yaml)
    rows = [
        f"| `{name}` | `{json.dumps(_value_at(values, name))}` | {text[0].upper()}{text[1:]} |\n"
        for name, text in descriptions(values_yaml).items()
    ]
    table = "| value | default | what it does |\n|---|---|---|\n" + "".join(rows)
    return _TABLE.sub(lambda _: table, readme)


def manifest() -> str:
    """Everything that a default install makes, as one text for `kubectl apply`."""
    namespace = (ROOT / "charts" / "namespace.yaml").read_text()
    template = ("template", "stoker", CHART, "--namespace", "stoker-system", "--skip-tests")
    rendered = subprocess.run(
        [programs.program("helm"), *template], check=True, stdout=subprocess.PIPE, text=True
    )
    return namespace + rendered.stdout


def _value_at(values: dict[str, Any], name: str) -> Any:
    for key in name.split("."):
        values = values[key]
    return values


if __name__ == "__main__":
    programs.build(one for one in programs.PROGRAMS if one.name == "helm")
    readme = CHART / "README.md"
    readme.write_text(with_table(readme.read_text(), (CHART / "values.yaml").read_text()))
    MANIFEST.parent.mkdir(exist_ok=True)
    MANIFEST.write_text(manifest())
    print(f"wrote {readme.relative_to(ROOT)} and {MANIFEST.relative_to(ROOT)}")
