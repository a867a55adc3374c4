"""`stoker plan` in a folder with some models, as a person runs it."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.unit.cli.plan.shown import make_models

from stoker.cli.plan import command


@dataclass(frozen=True)
class Answered:
    """How a call ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def yaml(self) -> Any:
        return yaml.safe_load(self.out)

    @property
    def sentence(self) -> str:
        """What a usage error says."""
        _, _, sentence = self.err.partition("Error: ")
        assert sentence.count("\n") == 1, sentence
        return sentence.rstrip("\n")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder with the models; the working directory."""
    make_models(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture
def plan(here):
    """Call `stoker plan`."""

    def call(*arguments, **options):
        done = CliRunner().invoke(command, [str(a) for a in arguments], **options)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Answered(status=done.exit_code, out=done.stdout, err=done.stderr)

    return call
