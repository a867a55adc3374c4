"""Is a file name that a source gives one that we may create?

A repository's listing, a SHA256SUMS file and an archive are all written by others. A name from
them becomes a path below one folder, or nothing: no `..`, no absolute path, no backslash (which
`sha256sum` writes in its own way, and other systems take for a slash), no control character, no
dash in front (a digest made by hand would differ), and nothing a file system could not hold.
"""

from stoker.api.reasons import TerminationClass
from stoker.fetch.errors import FetchError

_MOST_PATH_BYTES = 1024
_MOST_NAME_BYTES = 255
"""`NAME_MAX` of Linux file systems."""
_MOST_FILES = 10_000


def why_refused(path: str) -> str | None:
    """What is wrong with a relative path, as the end of a sentence; None if nothing is.

    Example: `a/../b` -> `has a part ".."`.
    """
    if not path.isprintable() or "\\" in path:
        return "has a backslash, a control character or bytes that are not UTF-8"
    if path.startswith("-"):
        return "starts with a dash, which programs take for an option"
    parts = path.split("/")
    if parts[0] == "":
        return "is empty or absolute"
    for part in parts:
        if part in ("", ".", ".."):
            return f'has a part "{part}"'
        if len(part.encode()) > _MOST_NAME_BYTES:
            return f"has a part longer than {_MOST_NAME_BYTES} bytes"
    if len(path.encode()) > _MOST_PATH_BYTES:
        return f"is longer than {_MOST_PATH_BYTES} bytes"
    return None


def check_count(files: int, *, uri: str) -> None:
    """Raise `SourceNotAllowed` for more files than a model has: a whole bucket, named by mistake."""
    if files > _MOST_FILES:
        raise FetchError(
            TerminationClass.SOURCE_NOT_ALLOWED,
            f"{uri} holds more than {_MOST_FILES} files, which no model does",
            fix="Name the folder of the model itself in `model.uri`.",
        )


def check_paths(paths: list[str], *, uri: str) -> None:
    """Raise `SourceNotAllowed` unless every path may be created, and all of them together.

    Together: no path twice, and none that is a folder of another.
    """
    seen: set[str] = set()
    for path in paths:
        if (reason := why_refused(path)) is not None:
            raise _refused(path, reason, uri=uri)
        if path in seen:
            raise _refused(path, "is listed twice", uri=uri)
        seen.add(path)
    for path in paths:
        folder = path
        while folder := folder.rpartition("/")[0]:
            if folder in seen:
                raise _refused(path, f"lies below `{folder}`, which is a file", uri=uri)


def _refused(path: str, reason: str, *, uri: str) -> FetchError:
    shown = path[:200].encode(errors="backslashreplace").decode()
    return FetchError(
        TerminationClass.SOURCE_NOT_ALLOWED,
        f"{uri}: the file name {shown!r} {reason}",
        fix="Rename the file at the source; names must be plain relative paths without `..` or backslashes.",
    )
