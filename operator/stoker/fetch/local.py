"""`pvc://`: files that are already in place, on a claim that the pod mounts read-only.

Nothing is copied. Every file is read once for its SHA-256, which is what makes the digest of an
instance true and not only likely. Links are refused: `find -type f` does not see them, so a digest
made by hand would differ, and a link may lead out of the claim.
"""

import asyncio
import os
import stat
from pathlib import Path

from stoker.api.reasons import TerminationClass
from stoker.fetch import RemoteFile
from stoker.fetch.download import Wish, verified
from stoker.fetch.errors import FetchError
from stoker.fetch.manifest import FileDigest, Manifest, write_manifest
from stoker.fetch.partial import FileHash, hash_file
from stoker.fetch.paths import check_paths
from stoker.fetch.progress import Progress
from stoker.fetch.staging import Place

_PARALLEL_FILES = 4
_MADE_BY_MKFS = "lost+found"
"""Folder at the top of an ext file system that only root may read."""


async def verify_in_place(*, wish: Wish, place: Place, progress: Progress) -> Manifest:
    """Hash the files of a mounted folder and write the manifest; raises `FetchError`."""
    sizes = await asyncio.to_thread(_sizes, place.folder, uri=wish.uri)
    check_paths(list(sizes), uri=wish.uri)
    progress.start(total_bytes=sum(sizes.values()))
    slots = asyncio.Semaphore(_PARALLEL_FILES)

    async def hashed(path: str) -> FileDigest:
        async with slots:
            hasher = FileHash(RemoteFile(path=path, size_bytes=None, checksum=None, key=path))
            size = await hash_file(place.folder / path, hasher, count=progress.read)
            return FileDigest(path=path, size_bytes=size, sha256=hasher.sha256)

    async with progress.reported(wish.uri):
        files = tuple(await asyncio.gather(*(hashed(path) for path in sorted(sizes, key=str.encode))))
    manifest = verified(files, wish=wish, version=None)
    write_manifest(manifest, place.manifest)
    return manifest


def _sizes(folder: Path, *, uri: str) -> dict[str, int]:
    """Size of each file by its relative path."""
    if not folder.is_dir():
        raise _missing(uri, f"there is no folder {folder}")
    sizes = {}
    for parent, folders, names in os.walk(folder, onerror=_raise):
        if Path(parent) == folder and _MADE_BY_MKFS in folders:
            folders.remove(_MADE_BY_MKFS)
        for name in (*folders, *names):
            path = Path(parent, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                sizes[str(path.relative_to(folder))] = path.stat().st_size
            elif not stat.S_ISDIR(mode):
                raise FetchError(
                    TerminationClass.SOURCE_NOT_ALLOWED,
                    f"{uri}: `{path.relative_to(folder)}` is neither a plain file nor a folder",
                    fix="Copy the model to the claim with links resolved (`cp -rL`).",
                )
    if not sizes:
        raise _missing(uri, "the folder is empty")
    return sizes


def _raise(error: OSError) -> None:
    raise error


def _missing(uri: str, why: str) -> FetchError:
    return FetchError(
        TerminationClass.WEIGHTS_MISSING,
        f"{uri}: {why}",
        fix="Correct the path in `model.uri`, or fill the claim.",
    )
