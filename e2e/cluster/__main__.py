"""The command line of the embedded cluster: ``python -m e2e.cluster --help``."""

import sys
from pathlib import Path

import click

from e2e.cluster import cluster, programs
from e2e.cluster import status as statuses
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import default_state

_control_plane_only = click.option(
    "--control-plane-only", is_flag=True, help="etcd, API server and controller-manager, on loopback."
)
_state = click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    help="The cluster's folder; $STOKER_CLUSTER_STATE or one in /var/tmp/stoker by default.",
)


@click.group(help=__doc__)
def main() -> None:
    """Commands are below."""


@main.command()
@click.option("--nodes", type=click.IntRange(min=1), default=2, show_default=True, help="How many nodes.")
@_control_plane_only
@_state
def up(nodes: int, control_plane_only: bool, state: Path | None) -> None:
    """Start the cluster, or what of it doesn't run."""
    folder = state or default_state(control_plane_only=control_plane_only)
    layout = cluster.up(folder, nodes=0 if control_plane_only else nodes)
    click.echo(layout.kubeconfig)


@main.command()
@_control_plane_only
@_state
def down(control_plane_only: bool, state: Path | None) -> None:
    """End the cluster and remove all that it made."""
    cluster.down(state or default_state(control_plane_only=control_plane_only))


@main.command()
@_control_plane_only
@_state
def status(control_plane_only: bool, state: Path | None) -> None:
    """Show what runs, and where its kubeconfig is."""
    click.echo(statuses.describe(state or default_state(control_plane_only=control_plane_only)))


@main.command()
@click.argument("names", nargs=-1, metavar="[PROGRAM]...")
def build(names: tuple[str, ...]) -> None:
    """Build the programs that the cache lacks, all or those named; they lie in $STOKER_CACHE/bin."""
    programs.build([programs.find(name) for name in names] or programs.PROGRAMS)


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except ClusterError as error:
        sys.exit(f"error: {error}")
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
