"""How do the fields of a settings class become the flags of a command?

One flag and one environment variable for each field, with the field's own words as its help, so that
a setting is described in one place.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any

import click

_LOG_LEVELS = click.Choice(["debug", "info", "warning", "error"], case_sensitive=False)
_CHOICES = {"log_format": click.Choice(["text", "json"]), "log_level": _LOG_LEVELS}


def options(settings: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that gives a command a flag for each field of a settings class."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for setting in reversed(fields(settings)):
            command = _option(setting)(command)
        return command

    return decorate


def _option(setting: Field[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`resync_s: float` becomes `--resync-seconds FLOAT`, or `STOKER_RESYNC_SECONDS`."""
    spoken = setting.name.removesuffix("_s") + ("_seconds" if setting.name.endswith("_s") else "")
    flag = f"--{spoken.replace('_', '-')}"
    kinds: dict[Any, Any] = {bool: bool, int: int, float: float}
    many = setting.type == tuple[str, ...]
    default = setting.default_factory if setting.default is MISSING else setting.default
    return click.option(
        f"{flag}/--no-{flag[2:]}" if setting.type is bool else flag,
        setting.name,
        envvar=f"STOKER_{spoken.upper()}",
        type=_CHOICES.get(setting.name, kinds.get(setting.type, str)),
        default="" if many else default,
        callback=_split if many else None,
        show_envvar=True,
        show_default=not many and setting.default is not MISSING,
        help=setting.metadata["help"],
    )


def _split(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in value.split(",") if word.strip())
