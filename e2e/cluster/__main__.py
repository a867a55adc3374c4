"""The command line of the embedded cluster: ``python -m e2e.cluster --help``."""

from pathlib import Path

import click

from e2e import command_line
from e2e.cluster import cluster, images, programs
from e2e.cluster import status as statuses
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import default_state, load
from e2e.cluster.node import RunningNode

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


@main.command("load-image")
@click.argument("image", metavar="ARCHIVE|NAME")
@click.option("--node", "node_names", multiple=True, help="Only on this node; may be repeated.")
@_state
def load_image(image: str, node_names: tuple[str, ...], state: Path | None) -> None:
    """Bring an image archive, or an image that buildah has, to the nodes."""
    images.load(image, _nodes(state, node_names))


@main.command("images")
@click.argument("names", nargs=-1, metavar="[IMAGE]...")
@click.option("--node", "node_names", multiple=True, help="Only on this node; may be repeated.")
@click.option("--build-only", is_flag=True, help="Leave the nodes alone.")
@_state
def build_images(
    names: tuple[str, ...], node_names: tuple[str, ...], build_only: bool, state: Path | None
) -> None:
    """Build the project's images, all or those named, and bring them to the nodes if a cluster is up."""
    wanted = [images.find(name) for name in names] or images.IMAGES
    images.build(wanted)
    if build_only:
        return
    if load(_folder(state)) is None:
        click.echo("built only: no cluster is up", err=True)
        return
    nodes = _nodes(state, node_names)
    for image in wanted:
        images.load(image.name, nodes)


@main.command()
@click.argument("names", nargs=-1, metavar="[PROGRAM]...")
def build(names: tuple[str, ...]) -> None:
    """Build the programs that the cache lacks, all or those named; they lie in $STOKER_CACHE/bin."""
    programs.build([programs.find(name) for name in names] or programs.PROGRAMS)


def _folder(state: Path | None) -> Path:
    return state or default_state(control_plane_only=False)


def _nodes(state: Path | None, names: tuple[str, ...]) -> list[RunningNode]:
    """The nodes of the cluster in a folder, or those of some names."""
    folder = _folder(state)
    layout = load(folder)
    if layout is None or not layout.nodes:
        raise ClusterError(f"no cluster with nodes in {folder}: run `up`")
    nodes = [node for node in cluster.running_nodes(layout) if not names or node.node.name in names]
    if len(nodes) < len(names):
        raise ClusterError(f"the nodes are {', '.join(node.name for node in layout.node_list)}")
    return nodes


if __name__ == "__main__":
    command_line.run(main)
