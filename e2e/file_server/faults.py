"""Which faults a request asks for, written as the first part of its path.

``/~status=503/tiny/config.json`` is the file ``tiny/config.json`` behind a broken server. Several
are joined by commas: ``/~token=secret,bytes_per_s=100000/tiny/...``. They are in the path, not in
the query, because a client that is given a folder's address builds the addresses of its files itself.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How an answer differs from that of a good server."""

    status: int | None = None
    """Answer this instead of the file."""
    token: str | None = None
    """Answer 401 unless the request has ``Authorization: Bearer`` with it."""
    bytes_per_s: int | None = None
    """Send no faster."""
    drop_after_bytes: int | None = None
    """Close the connection after so many bytes of each answer; a client that resumes gets on."""
    corrupt: bool = False
    """Flip the last bit of the file, so that its length is right and its digest is not."""


def split(path: str) -> tuple[Faults, str]:
    """The faults of a request path and the path of the file, without a slash in front.

    Raises ValueError for a fault that there isn't.
    """
    first, _, rest = path.lstrip("/").partition("/")
    if not first.startswith("~"):
        return Faults(), path.lstrip("/")
    asked: dict[str, int | str | bool] = {}
    for word in first.removeprefix("~").split(","):
        name, _, value = word.partition("=")
        match name:
            case "status" | "bytes_per_s" | "drop_after_bytes":
                asked[name] = int(value)
            case "token":
                asked[name] = value
            case "corrupt":
                asked[name] = True
            case _:
                raise ValueError(f"no fault {word!r}")
    return Faults(**asked), rest  # type: ignore[arg-type]
