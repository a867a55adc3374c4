"""How the commands of `e2e` end when a person made a mistake: one sentence, no traceback."""

import sys

import click

from e2e.cluster.errors import ClusterError


def run(command: click.Command) -> None:
    """Run a command with the arguments of this process, and exit with its status."""
    try:
        command(standalone_mode=False)
    except ClusterError as error:
        sys.exit(f"error: {error}")
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
