"""The `stoker` command: one file for each subcommand, imported only when it is called.

`stoker plan` has to answer in half a second, so it must not pay for the imports of
`stoker operator` (kopf and kubernetes together take longer than that).
"""

from importlib import import_module

import click

from stoker import __version__

_SUBCOMMANDS: dict[str, str] = {
    "crds": "Print the CustomResourceDefinitions.",
    "fetch": "Put the weights of a model into a folder, verified.",
    "gateway": "Run the gateway, the entry for clients.",
    "operator": "Run the operator.",
    "plan": "Say whether a model fits, how many requests at once, how many replicas, for how much.",
}
"""Name of each subcommand and the sentence that `stoker --help` shows for it."""


class _LazyGroup(click.Group):
    """Imports `stoker.cli.<name>` and takes its `command` when the name is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _SUBCOMMANDS:
            return None
        command = import_module(f"stoker.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_SUBCOMMANDS.items()))


@click.group(cls=_LazyGroup)
@click.version_option(__version__, prog_name="stoker")
def main() -> None:
    """Keep inference fleets warm."""
