"""The image on which the cluster's images are built, made from Debian packages instead of a registry."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from e2e.cluster.command import run
from e2e.cluster.programs import cache_dir

NAME = "localhost/base:dev"

_SUITE = "bookworm"
_PACKAGES = ("ca-certificates", "libgomp1", "libnuma1", "python3", "python3-venv")
"""Python, and what vLLM for CPU loads: without libnuma its worker dies at start."""
_NOT_WANTED = (
    "var/cache/apt/archives",
    "var/lib/apt/lists",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
)
_DEADLINE_S = 1200


def base_hash() -> str:
    """Changes when the base image must be made again."""
    return hashlib.sha256(" ".join((_SUITE, *_PACKAGES, *_NOT_WANTED)).encode()).hexdigest()[:16]


def context() -> Path:
    """A folder of the cache with a Dockerfile and its root file system, made with debootstrap if missing."""
    folder = cache_dir() / "images" / f"base-{base_hash()}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            root, unfinished = Path(made) / "root", Path(made) / "context"
            run(
                *("debootstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}", _SUITE, root),
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                deadline_s=_DEADLINE_S,
            )
            for unwanted in _NOT_WANTED:
                shutil.rmtree(root / unwanted)
                (root / unwanted).mkdir()
            unfinished.mkdir()
            tar = ("tar", "--create", "--numeric-owner", f"--directory={root}")
            run(*tar, f"--file={unfinished / 'root.tar'}", ".", deadline_s=_DEADLINE_S)
            (unfinished / "Dockerfile").write_text("FROM scratch\nADD root.tar /\n")
            unfinished.rename(folder)
    return folder
