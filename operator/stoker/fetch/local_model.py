"""What is the model in this folder: its config, and what its weights take?

Apart from `model_files.py`, as whoever has a folder need not wait for the imports of network clients.
"""

from dataclasses import dataclass
from pathlib import Path

from stoker.api.reasons import TerminationClass
from stoker.core.capacity.weights import StoredWeights
from stoker.core.model import JsonObject
from stoker.fetch import model_kind
from stoker.fetch.errors import FetchError
from stoker.fetch.model_folder import FolderModel, Start, answer, read_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """What can be known of a model without its weights."""

    config: JsonObject
    """config.json, with the quantization that a separate file states."""
    stored: StoredWeights | None
    """What the files of the weights hold; None if there are none, or their sizes are not known."""
    version: str
    """Changes whenever the content does: the commit, or a digest of what the source lists. Empty for a
    folder on disk that is not of a Hugging Face cache."""


def read_local_model(path: Path) -> ModelFiles:
    """Read the model in a folder, in Hugging Face's cache of one, or a config.json alone.

    Raises `FetchError`, as `read_model_files` does.
    """
    try:
        return _local(path)
    except OSError as error:
        forbidden = isinstance(error, PermissionError)
        raise FetchError(
            TerminationClass.WEIGHTS_FORBIDDEN if forbidden else TerminationClass.WEIGHTS_UNREACHABLE,
            f"{error.filename or path} can't be read: {error.strerror}",
            fix="Correct the path, or its permissions.",
        ) from error


def _local(path: Path) -> ModelFiles:
    if path.is_dir():
        folder = _snapshot(path)
        files = {entry.name: entry for entry in folder.iterdir() if entry.is_file()}
        files |= {f"{below.parent.name}/config.json": below for below in folder.glob("*/config.json")}
        version = folder.name if folder.parent.name == "snapshots" else ""
    elif not path.is_file():
        raise FetchError(
            TerminationClass.WEIGHTS_MISSING,
            f"there is no file or folder {path}",
            fix="Give the folder of a model, or a config.json.",
        )
    elif path.suffix.lower() == ".gguf":
        raise model_kind.gguf(str(path))
    else:
        files, version = {"config.json": path}, ""
    reading = read_folder(
        {name: file.stat().st_size for name, file in files.items()}, name=str(path), weights_needed=False
    )
    step: tuple[Start, ...] | FolderModel = next(reading)
    while not isinstance(step, FolderModel):
        step = answer(reading, tuple(_first_bytes_on_disk(files[start.path], start.length) for start in step))
    return ModelFiles(config=step.config, stored=step.stored, version=version)


def _first_bytes_on_disk(path: Path, length: int) -> bytes:
    with path.open("rb") as file:
        return file.read(length)


def _snapshot(path: Path) -> Path:
    """The folder of the files, where `path` is a model's folder in Hugging Face's cache.

    It holds `refs/main` with a commit, and `snapshots/<commit>` with links to the files.
    """
    snapshots = path / "snapshots"
    if not snapshots.is_dir():
        return path
    main = path / "refs" / "main"
    if main.is_file():
        return snapshots / main.read_text().strip()
    return max(snapshots.iterdir(), key=lambda snapshot: snapshot.stat().st_mtime, default=path)
