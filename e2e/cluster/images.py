"""Which images the cluster runs, how they are built without a registry, and how they reach nodes.

An image carries the hash of its inputs as a label, on the builder's side and on each node's: what
didn't change is neither built nor imported again. It travels as an uncompressed archive (packing
5.6 GB took 100 s, unpacking it 150 s), which is deleted as soon as the nodes have it. The largest one
is kept in a form that new nodes start with (`image_store`).
"""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import base_image, build_settings, host, image_store
from e2e.cluster.command import run
from e2e.cluster.errors import ClusterError
from e2e.cluster.image_inputs import inputs_hash
from e2e.cluster.node import RunningNode, image_id_label
from e2e.cluster.programs import cache_dir
from e2e.cluster.progress import Progress

_ROOT = Path(__file__).parents[2]
_LABEL = "dev.stoker.inputs"
_BUILD_DEADLINE_S = 3600
_PUSH_DEADLINE_S = 1200
_SPARE_BYTES = 2 * 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image of the project."""

    name: str
    dockerfile: str
    """Path below the repository's root, which is the build's context."""
    kept: bool = False
    """Whether new nodes start with it."""


IMAGES = (
    Image(name="localhost/stoker:dev", dockerfile="operator/Dockerfile"),
    Image(name="localhost/stand-in-engine:dev", dockerfile="e2e/stand_in_engine/Dockerfile"),
    Image(name="localhost/file-server:dev", dockerfile="e2e/file_server/Dockerfile"),
    Image(name="localhost/stoker-serving-cpu:dev", dockerfile="serving_image/Dockerfile.cpu", kept=True),
)


def find(name: str) -> Image:
    """The image of a name, such as ``stoker`` or ``localhost/stoker:dev``."""
    for image in IMAGES:
        if name in (image.name, image.name.removeprefix("localhost/").removesuffix(":dev")):
            return image
    raise ClusterError(f"no image {name}: there are {', '.join(image.name for image in IMAGES)}")


def build(images: Sequence[Image]) -> None:
    """Build those images whose inputs changed since they were built."""
    host.check_root(why="buildah and debootstrap make file systems with every owner in them")
    host.install_missing(host.IMAGE_TOOLS)
    progress = Progress(total=1 + sum(2 if image.kept else 1 for image in images))
    progress.step(f"image {base_image.NAME}")
    if _built_from(base_image.NAME) != base_image.base_hash():
        _bud(base_image.NAME, "Dockerfile", context=base_image.context(), key=base_image.base_hash())
    volumes = build_settings.volumes(folder=cache_dir() / "build")
    for image in images:
        key = version(image)
        if _built_from(image.name) == key:
            progress.step(f"image {image.name}: unchanged")
        else:
            progress.step(f"image {image.name}: build {image.dockerfile}")
            base = ("--build-arg", f"BASE={base_image.NAME}")
            _bud(image.name, image.dockerfile, *base, *volumes, context=_ROOT, key=key)
        if image.kept:
            progress.step(f"image {image.name}: keep it for new nodes")
            _keep(image.name)


def _keep(name: str) -> None:
    image_id, size_bytes = _inspect(name)
    if not image_store.holds(image_id):
        _check_space(name, size_bytes=size_bytes, nodes=1)
        with _archive(name) as archive:
            image_store.fill(archive, name=name, image_id=image_id, labels=image_id_label(image_id))


def load(name: str, nodes: Sequence[RunningNode]) -> None:
    """Bring an image that buildah has, or an archive of images, to the nodes that lack it."""
    file = Path(name)
    if file.is_file():
        progress = Progress(total=len(nodes))
        for node in nodes:
            progress.step(f"import {file} on {node.node.name}")
            node.import_image(file.resolve())
        return
    image_id, size_bytes = _inspect(name)
    wanting = [node for node in nodes if not node.has_image(name, image_id)]
    progress = Progress(total=len(wanting) + 1 if wanting else 1)
    if not wanting:
        progress.step(f"image {name} is on {', '.join(node.node.name for node in nodes)}")
        return
    _check_space(name, size_bytes=size_bytes, nodes=len(wanting))
    progress.step(f"write an archive of {name} ({size_bytes / 1e9:.1f} GB)")
    with _archive(name) as archive:
        for node in wanting:
            progress.step(f"import {name} on {node.node.name}")
            node.import_image(archive)
            node.label_image(name, image_id)


@contextlib.contextmanager
def _archive(name: str) -> Iterator[Path]:
    folder = cache_dir() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        archive = Path(made) / "image.tar"
        run(
            "buildah",
            "push",
            "--quiet",
            name,
            f"docker-archive:{archive}:{name}",
            deadline_s=_PUSH_DEADLINE_S,
        )
        yield archive


def _check_space(name: str, *, size_bytes: int, nodes: int) -> None:
    """An archive, and for each node its layers and their unpacked copy."""
    needed = size_bytes * (1 + 2 * nodes) + _SPARE_BYTES
    free = shutil.disk_usage(cache_dir()).free
    if free < needed:
        raise ClusterError(
            f"{name} on {nodes} nodes needs {needed / 1e9:.0f} GB of disk and {free / 1e9:.0f} GB are free: "
            "free some, or load it on one node with --node"
        )


def version(image: Image) -> str:
    """The hash of what an image is built from in this checkout."""
    dockerfile = _ROOT / image.dockerfile
    if not dockerfile.exists():
        raise ClusterError(f"{image.name} has no {image.dockerfile} in this checkout")
    return inputs_hash(_ROOT, dockerfile, base=base_image.base_hash())


def _bud(name: str, dockerfile: str, *options: str, context: Path, key: str) -> None:
    run(
        *("buildah", "bud", "--isolation=chroot", "--network=host", "--layers"),
        *(f"--tag={name}", f"--label={_LABEL}={key}", *options),
        f"--file={dockerfile}",
        ".",
        cwd=context,
        deadline_s=_BUILD_DEADLINE_S,
    )


def _built_from(name: str) -> str | None:
    """The hash of the inputs from which buildah's image of a name was built; None if it has none."""
    listed = json.loads(run("buildah", "images", "--json"))
    if not any(name in (image.get("names") or []) for image in listed):
        return None
    template = f'{{{{index .OCIv1.Config.Labels "{_LABEL}"}}}}'
    return run("buildah", "inspect", "--type=image", "--format", template, name).strip()


def _inspect(name: str) -> tuple[str, int]:
    """Id and unpacked size of an image that buildah has."""
    for image in json.loads(run("buildah", "images", "--json")):
        if name in (image.get("names") or []):
            manifest = json.loads(json.loads(run("buildah", "inspect", "--type=image", name))["Manifest"])
            return image["id"], sum(layer["size"] for layer in manifest["layers"])
    raise ClusterError(f"neither a file nor an image that buildah has: {name}")
