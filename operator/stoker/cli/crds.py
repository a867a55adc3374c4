"""`stoker crds`: the CustomResourceDefinitions, for `kubectl apply` or for the repository.

A checkout keeps what this command writes (`make crds`), so that a change of the API shows in a
review as what users will see of it.
"""

import re
from pathlib import Path
from typing import Any

import click
import yaml

from stoker.api.crd import inference_service_crd, node_cache_crd
from stoker.api.reasons import VOCABULARY, Explained

_HEADER = "# Made by `make crds` from operator/stoker/api; do not edit.\n"

_CONDITIONS_HEAD = """\
<!-- Made by `make crds` from operator/stoker/api/reasons.py; do not edit. -->
# Conditions, reasons, verdicts

What the words in `kubectl describe infer NAME` and in Events mean, and what to do. A condition's
reason is one of its own reasons, a verdict, a scaling reason or a termination class.
"""


class _PlainDumper(yaml.SafeDumper):
    """Writes a value that stands in two places twice, as people do."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def generated_files() -> dict[str, str]:
    """Text of every file that `make crds` writes, by its path in the repository."""
    files = {"docs/conditions.md": conditions_page()}
    for crd in (inference_service_crd(), node_cache_crd()):
        name = f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml"
        files |= dict.fromkeys((f"crds/{name}", f"charts/stoker/files/crds/{name}"), _HEADER + _as_yaml(crd))
    return files


def conditions_page() -> str:
    """`docs/conditions.md`: each word with its meaning and what to do."""
    return _CONDITIONS_HEAD + "".join(_section(words) for words in VOCABULARY)


def _section(words: type[Explained]) -> str:
    title = re.sub(r"(?<=[a-z])[A-Z]", lambda capital: f" {capital[0].lower()}", words.__name__)
    rows = "".join(f"| `{word}` | {word.meaning} | {word.what_to_do} |\n" for word in words)
    return f"\n## {title}\n\n{words.__doc__}\n\n| word | meaning | what to do |\n|---|---|---|\n{rows}"


def _as_yaml(document: dict[str, Any]) -> str:
    return yaml.dump(document, Dumper=_PlainDumper, sort_keys=False, width=100)


@click.command()
@click.option(
    "--checkout",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with a checkout to write them to, and what else is made from the models.",
)
def command(checkout: Path | None) -> None:
    """Print the CustomResourceDefinitions, as for `kubectl apply --server-side -f -`."""
    if checkout is None:
        click.echo(
            "---\n".join(_as_yaml(crd) for crd in (inference_service_crd(), node_cache_crd())), nl=False
        )
        return
    for name, text in generated_files().items():
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        click.echo(f"wrote {path}")
