"""`stoker operator`: run the operator. Its flags are the fields of `stoker.settings.Settings`."""

import asyncio
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any

import click

from stoker.controller import logs, runtime
from stoker.kube.errors import FatalError
from stoker.kube.lease import LeadershipLostError
from stoker.settings import Settings

_LOG_LEVELS = click.Choice(["debug", "info", "warning", "error"], case_sensitive=False)
_CHOICES = {"log_format": click.Choice(["text", "json"]), "log_level": _LOG_LEVELS}


def _options(command: Callable[..., None]) -> Callable[..., None]:
    for setting in reversed(fields(Settings)):
        command = _option(setting)(command)
    return command


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


@click.command(name="operator")
@_options
def command(**given: Any) -> None:
    """Run the operator: turn InferenceServices into instances that serve."""
    settings = Settings(**given)
    logs.configure(as_json=settings.log_format == "json", level=settings.log_level)
    try:
        asyncio.run(runtime.run(settings))
    except (FatalError, LeadershipLostError) as error:
        raise click.ClickException(str(error)) from error
