"""Are the weights on the volume the ones that this revision is to serve?

The init step leaves `model/` and `manifest.json` on the volume and has hashed every byte on the way
in. This step compares the manifest's digest with the one that is wanted, recomputes that digest from
the manifest's own lines, and compares the size of every file.

It does not read the files again. The volume belongs to this pod alone and is read-only here, so nothing
can change between the two steps but the disk itself; reading 140 GB at 2 GB/s would add 70 s to every
start, the very time Stoker exists to save. A file cut short by a full disk is caught by its size.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker_serving.termination import Failure, Fatal, Reason

MANIFEST = "manifest.json"
MODEL = "model"

_FETCH_AGAIN = (
    "Delete the pod, so that the weights are fetched again; if it happens twice, check the node's disk."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What is served, as the init step found it."""

    digest: str
    model_version: str


def verify(folder: Path, *, digest: str | None) -> Weights:
    """Checks the volume; raises Fatal with what is wrong."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        stated = str(manifest["digest"])
        files = [(str(f["path"]), int(f["bytes"]), str(f["sha256"])) for f in manifest["files"]]
    except FileNotFoundError as error:
        raise Fatal(
            Failure(
                reason=Reason.WEIGHTS_MISSING,
                message=f"There is no {folder / MANIFEST}: the init step left no weights on this volume.",
                fix="Look at the init container `weights` of this pod and mount its volume at /weights.",
            )
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise _corrupt(f"{folder / MANIFEST} can't be read: {error!r}.") from error

    if digest is not None and stated != digest:
        raise Fatal(
            Failure(
                reason=Reason.WEIGHTS_CORRUPT,
                message=f"The weights have the digest {stated}, and {digest} is asked for.",
                fix="Correct `model.sha256`, or pin `model.revision` to the version that has this digest.",
            )
        )
    if _digest(files) != stated:
        raise _corrupt(f"The files that {folder / MANIFEST} lists do not add up to its digest {stated}.")
    for path, size, _ in files:
        _check_size(folder / MODEL / path, size)
    return Weights(digest=stated, model_version=_version(manifest))


def _digest(files: list[tuple[str, int, str]]) -> str:
    """SHA-256 of what `sha256sum` prints for the files, sorted by the bytes of their paths."""
    ordered = sorted(files, key=lambda file: file[0].encode())
    lines = "".join(f"{sha256}  {path}\n" for path, _, sha256 in ordered)
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def _check_size(path: Path, size: int) -> None:
    try:
        found = path.stat().st_size
    except FileNotFoundError as error:
        raise _corrupt(f"{path} is in the manifest but not on the volume.") from error
    if found != size:
        raise _corrupt(f"{path} has {found} bytes, and the manifest says {size}.")


def _version(manifest: dict[str, Any]) -> str:
    return str(manifest.get("modelVersion") or "")


def _corrupt(message: str) -> Fatal:
    return Fatal(Failure(reason=Reason.WEIGHTS_CORRUPT, message=message, fix=_FETCH_AGAIN))
