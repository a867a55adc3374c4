"""What exactly are these weights? A list of files with their SHA-256, and one digest over it.

The digest is what a person gets in the folder of the model with

    find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum

so that nobody has to trust Stoker for it. Rejected: a digest over a tar archive (it depends on
owners, times and the program) and a Merkle tree (nobody can check it by hand).
"""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "sha256:"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDigest:
    """One file of a model."""

    path: str
    """Relative to the folder of the model, with slashes."""
    size_bytes: int
    sha256: str
    """Hexadecimal, without a prefix."""


def digest_of(files: tuple[FileDigest, ...]) -> str:
    """`sha256:` and the SHA-256 of the lines `<hex>  <path>`, sorted by the bytes of the path.

    Example: no files -> `sha256:e3b0c442...`, the digest of nothing.
    """
    ordered = sorted(files, key=lambda file: file.path.encode())
    text = "".join(f"{file.sha256}  {file.path}\n" for file in ordered)
    return _PREFIX + hashlib.sha256(text.encode()).hexdigest()


def same_digest(one: str, other: str) -> bool:
    """Whether two digests are equal; the prefix and the case of the digits do not matter."""
    return one.lower().removeprefix(_PREFIX) == other.lower().removeprefix(_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What was fetched from where."""

    uri: str
    revision: str
    """The revision that was asked for; empty if none."""
    model_version: str
    """What it turned out to be: the commit, or the start of the digest where the source has no versions."""
    digest: str
    files: tuple[FileDigest, ...]

    @property
    def size_bytes(self) -> int:
        """Size of all files together."""
        return sum(file.size_bytes for file in self.files)


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write the manifest so that it is there whole or not at all, also after a power cut."""
    data = {
        "digest": manifest.digest,
        "modelVersion": manifest.model_version,
        "uri": manifest.uri,
        "revision": manifest.revision,
        "files": [{"path": f.path, "bytes": f.size_bytes, "sha256": f.sha256} for f in manifest.files],
    }
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("w") as stream:
        json.dump(data, stream, indent=1)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def read_manifest(path: Path) -> Manifest | None:
    """The manifest at `path`; None if there is none, or if it is not one of ours."""
    try:
        data = json.loads(path.read_text())
        return Manifest(
            uri=data["uri"],
            revision=data["revision"],
            model_version=data["modelVersion"],
            digest=data["digest"],
            files=tuple(
                FileDigest(path=f["path"], size_bytes=f["bytes"], sha256=f["sha256"]) for f in data["files"]
            ),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
