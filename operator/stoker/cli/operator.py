"""`stoker operator`: run the operator. Its flags are the fields of `stoker.settings.Settings`."""

import asyncio
from typing import Any

import click

from stoker import logs
from stoker.cli.options import options
from stoker.controller import runtime
from stoker.kube.errors import FatalError
from stoker.kube.lease import LeadershipLostError
from stoker.settings import Settings


@click.command(name="operator")
@options(Settings)
def command(**given: Any) -> None:
    """Run the operator: turn InferenceServices into instances that serve."""
    settings = Settings(**given)
    logs.configure(as_json=settings.log_format == "json", level=settings.log_level)
    try:
        asyncio.run(runtime.run(settings))
    except (FatalError, LeadershipLostError) as error:
        raise click.ClickException(str(error)) from error
