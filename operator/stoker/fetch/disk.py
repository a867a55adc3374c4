"""Is there room for the weights, and what do we say when there is not?"""

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

from stoker.api.reasons import TerminationClass
from stoker.fetch.errors import FetchError

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def check_room(folder: Path, *, needed_bytes: int, uri: str) -> None:
    """Raise `DiskFull` with both numbers if `needed_bytes` more do not fit where `folder` is."""
    if needed_bytes > shutil.disk_usage(folder).free:
        raise _disk_full(folder, needed_bytes=needed_bytes, uri=uri)


@contextlib.contextmanager
def told_when_full(folder: Path, *, needed_bytes: int | None, uri: str) -> Iterator[None]:
    """Turn the operating system's `no space left` into `DiskFull`; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise _disk_full(folder, needed_bytes=needed_bytes, uri=uri) from error


def _disk_full(folder: Path, *, needed_bytes: int | None, uri: str) -> FetchError:
    needed = "an unknown number of" if needed_bytes is None else str(needed_bytes)
    free = shutil.disk_usage(folder).free
    return FetchError(
        TerminationClass.DISK_FULL, f"{uri} needs {needed} bytes more, and {free} are free at {folder}"
    )
