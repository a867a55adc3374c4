"""`stoker gateway`: run the gateway. Its flags are the fields of `stoker.gateway.settings.Settings`."""

import sys
from typing import Any

import click

from stoker import logs
from stoker.cli.options import options
from stoker.gateway import runtime
from stoker.gateway.settings import Settings


@click.command(name="gateway")
@options(Settings)
def command(**given: Any) -> None:
    """Run the gateway: the OpenAI-compatible entry for clients."""
    settings = Settings(**given)
    logs.configure(as_json=settings.log_format == "json", level=settings.log_level)
    sys.exit(runtime.run(settings))
