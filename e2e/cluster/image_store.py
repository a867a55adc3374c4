"""How a new node has the largest image from the start, instead of importing it.

Bringing 5.9 GB to a node takes two minutes: written as layers, and once more unpacked. So each version
of the image is imported once, by a containerd that belongs to no node, and that containerd's root folder
is kept in the cache. The root of a new node is made from it with hard links, in seconds and without room
on disk. That is safe, as nobody writes into such a file: blobs are named by their digest, and unpacked
layers are lower folders of overlays. Databases are copied.

Rejected: all images (the others change with the code, are small, and would make a new store each time);
mounting one store into all nodes (containerd wants its root for itself).
"""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster.command import run, wait_for
from e2e.cluster.errors import ClusterError
from e2e.cluster.programs import build, cache_dir, find, program

_STARTED_DEADLINE_S = 30
_STOPPED_DEADLINE_S = 30
_IMPORT_DEADLINE_S = 900
_LINK_DEADLINE_S = 120


def holds(image_id: str) -> bool:
    """Whether the store is there and of this very image."""
    return _store(image_id).is_dir()


def fill(archive: Path, *, name: str, image_id: str, labels: str) -> None:
    """Make the store anew from an image archive; `labels` is what the node's image list is to show."""
    build([find("containerd"), find("ctr")])
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        root = Path(made) / "root"
        link_to(root)  # of a version before this one most layers are there
        with _containerd(root, folder=Path(made)) as socket:
            ctr = (program("ctr"), f"--address={socket}", "--namespace=k8s.io", "images")
            run(*ctr, "import", str(archive), deadline_s=_IMPORT_DEADLINE_S)
            run(*ctr, "label", name, labels)
        for old in folder.glob("image-*"):
            shutil.rmtree(old)
        root.rename(_store(image_id))


def link_to(root: Path) -> None:
    """Make a containerd root of what is kept; leaves it alone if nothing is, or if it is there already."""
    kept = next(_folder().glob("image-*"), None)
    if kept is None or root.exists() or kept.stat().st_dev != root.parent.stat().st_dev:
        return
    run("cp", "--archive", "--link", kept, root, deadline_s=_LINK_DEADLINE_S)
    for database in root.rglob("*.db"):
        copy = database.with_suffix(".copy")
        shutil.copy2(database, copy)
        copy.rename(database)


@contextlib.contextmanager
def _containerd(root: Path, *, folder: Path) -> Iterator[Path]:
    """A containerd of nobody with this root; the socket that it answers on."""
    config, socket, log = folder / "containerd.toml", folder / "socket", folder / "log"
    config.write_text("version = 3\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n")
    places = (f"--root={root}", f"--state={folder / 'state'}", f"--address={socket}")
    with log.open("w") as output:
        process = subprocess.Popen(
            [program("containerd"), f"--config={config}", *places], stdout=output, stderr=output
        )

    def missing() -> str | None:
        if process.poll() is not None:
            raise ClusterError(f"containerd ended:\n{log.read_text()[-1500:]}")
        try:
            run(program("ctr"), f"--address={socket}", "version", deadline_s=10)
        except ClusterError as error:
            return str(error)
        return None

    try:
        wait_for("the containerd that fills the image store", missing, deadline_s=_STARTED_DEADLINE_S)
        yield socket
    finally:
        process.terminate()
        process.wait(_STOPPED_DEADLINE_S)


def _folder() -> Path:
    return cache_dir() / "image-store"


def _store(image_id: str) -> Path:
    return _folder() / f"image-{image_id}"
