"""Where do files gather before the model is whole, and how does it become visible?

Beside the model's folder `NAME` lies `.NAME.partial` with the identity of what is being fetched,
unfinished files, finished files, and an unpacked archive. When all is verified, the finished files
become `NAME` in one rename, the manifest is written, and the rest is removed. Killed at any moment,
the next run goes on from what is there; files of another identity are removed first.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from stoker.fetch import Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a model (or adapter) goes."""

    folder: Path
    manifest: Path
    """Written last: who finds it finds the folder whole and verified."""


class Staging:
    """The folder of what is not yet whole."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.root = place.folder.with_name(f".{place.folder.name}.partial")
        self._identity = self.root / "identity"
        self._files = self.root / "files"
        self.unpacked = self.root / "unpacked"

    def prepare(self, listing: Listing) -> None:
        """Keep what an earlier run left of this very listing, and nothing else."""
        self._place.manifest.unlink(missing_ok=True)
        if not listing.identity or self._known_identity() != listing.identity:
            self._remove(self.root)
        elif self._place.folder.exists() and not self._files.exists():
            # Killed between the rename and the manifest: the files are whole, take them back.
            self._place.folder.rename(self._files)
        self._remove(self._place.folder)
        self._remove(self.unpacked)
        self.root.mkdir(parents=True, exist_ok=True)
        self._identity.write_text(listing.identity)

    def partial(self, path: str) -> Path:
        """Where the bytes of a file gather."""
        return self.root / "parts" / path

    def final(self, path: str) -> Path:
        """Where a whole file waits for the others."""
        return self._files / path

    @property
    def files(self) -> Path:
        """The folder of whole files."""
        return self._files

    def missing_bytes(self, listing: Listing) -> int:
        """Bytes that are still to be written, of the files whose size is known."""
        missing = 0
        for file in listing.files:
            if file.size_bytes is not None:
                missing += max(
                    file.size_bytes - max(_size(self.partial(file.path)), _size(self.final(file.path))), 0
                )
        return missing

    def publish(self, folder: Path) -> None:
        """Make `folder`, which lies in here, the model's folder."""
        folder.rename(self._place.folder)

    def discard(self) -> None:
        """Remove everything that is left in here."""
        self._remove(self.root)

    def _known_identity(self) -> str | None:
        return self._identity.read_text() if self._identity.is_file() else None

    @staticmethod
    def _remove(folder: Path) -> None:
        if folder.exists():
            shutil.rmtree(folder)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
