"""Where do the keys come from, and have they changed?

A Secret, either mounted as a folder, where the kubelet swaps all files at once behind a link, or
read from the API server. The folder is looked at by its names, sizes and times: a look costs less
than reading, and a swap changes all of them.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

_Stamp: TypeAlias = tuple[tuple[str, int, int, int], ...]


class KeyFolder:
    """A Secret that is mounted as a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: _Stamp | None = None

    def read_if_changed(self) -> Mapping[str, bytes] | None:
        """All entries, if they are not those of the last call.

        Raises `OSError` if the folder can't be read, or was swapped meanwhile: ask again later, and
        keep what was read before.
        """
        # The kubelet's own names, such as `..data`, begin with a dot.
        files = sorted(f for f in self._path.iterdir() if not f.name.startswith(".") and f.is_file())
        stamp = tuple((f.name, (s := f.stat()).st_ino, s.st_mtime_ns, s.st_size) for f in files)
        if stamp == self._seen:
            return None
        entries = {f.name: f.read_bytes() for f in files}
        self._seen = stamp
        return entries


def entries_of_secret(secret: Mapping[str, Any]) -> Mapping[str, bytes]:
    """All entries of a Secret as the API server sends it."""
    return {name: base64.b64decode(value) for name, value in (secret.get("data") or {}).items()}
