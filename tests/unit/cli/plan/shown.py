"""The answers that `docs/size.md` shows, and how to write them anew: `make size-page`."""

import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path

from click.testing import CliRunner

from stoker.cli.plan import command

CONFIGS = Path(__file__).parents[2] / "core/capacity/configs"
PAGE = Path(__file__).parents[4] / "docs/size.md"
MODELS = {
    "Qwen2.5-7B-Instruct": "Qwen--Qwen2.5-7B-Instruct",
    "Llama-3.3-70B-Instruct-FP8": "RedHatAI--Llama-3.3-70B-Instruct-FP8-dynamic",
    "Meta-Llama-3.1-70B": "meta-llama--Meta-Llama-3.1-70B",
    "DeepSeek-V3": "deepseek-ai--DeepSeek-V3",
}
"""Folders of models, and the config that each has."""

_ANSWER = re.compile(r"(?P<asked>```console\n\$ stoker plan (?P<arguments>.*)\n)(?P<out>(?s:.*?))```")


def make_models(folder):
    """Put the models into a folder."""
    for name, config in MODELS.items():
        (folder / name).mkdir()
        shutil.copy(CONFIGS / f"{config}.json", folder / name / "config.json")


def shown():
    """Arguments and answer of each example."""
    return [(found["arguments"], found["out"]) for found in _ANSWER.finditer(PAGE.read_text())]


def printed(arguments):
    """What the command prints, in the working directory."""
    done = CliRunner().invoke(command, shlex.split(arguments), env={"COLUMNS": "100"})
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def main():
    """Write the page anew."""
    with tempfile.TemporaryDirectory() as folder:
        make_models(Path(folder))
        os.chdir(folder)
        text = _ANSWER.sub(
            lambda found: f"{found['asked']}{printed(found['arguments'])}```", PAGE.read_text()
        )
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
