"""Is this the JSON object that a model's file should be?

Read more strictly than Python does: a key that stands twice, of which readers take one or the other,
and NaN, which compares with nothing, would become a wrong number far from here. `Infinity` is taken,
though it is not JSON either: `transformers` writes it, as in Mamba's `time_step_limit`.
"""

import json
from collections import Counter
from typing import Any

from stoker.api.reasons import TerminationClass
from stoker.core.model import JsonObject
from stoker.fetch.errors import FetchError

_LFS_POINTER = b"version https://git-lfs"


def json_object(data: bytes, *, what: str) -> JsonObject:
    """The object that a file holds; raises `FetchError`. `what` names the file for a person."""
    refuse_lfs_pointer(data, what=what)
    try:
        document = json.loads(data.decode(), object_pairs_hook=_without_twins, parse_constant=_constant)
    except UnicodeDecodeError as error:
        raise _unusable(f"{what} is not JSON: it is not even text in UTF-8") from error
    except json.JSONDecodeError as error:
        raise _unusable(f"{what} is not JSON: {error.msg} in line {error.lineno}") from error
    except RecursionError as error:
        raise _unusable(f"{what} is nested too deeply") from error
    except ValueError as error:
        raise _unusable(f"{what} {error}") from error
    if not isinstance(document, dict):
        raise _unusable(f"{what} is JSON and not an object: it must start with `{{`")
    return document


def refuse_lfs_pointer(data: bytes, *, what: str) -> None:
    """Raise `FetchError` for what git keeps in place of a large file."""
    if data.startswith(_LFS_POINTER):
        raise FetchError(
            TerminationClass.WEIGHTS_MISSING,
            f"{what} is a pointer of Git LFS and not the file itself",
            fix="Run `git lfs pull` in the folder, and copy it again.",
        )


def _without_twins(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        twin = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"has the key `{twin[:100]}` twice")
    return found


def _constant(name: str) -> float:
    if name == "NaN":
        raise ValueError("holds NaN, which is not a number that anything can be computed from")
    return float(name)


def _unusable(message: str) -> FetchError:
    return FetchError(
        TerminationClass.MODEL_UNSUPPORTED,
        message,
        fix="Put the file in order, as the model's authors publish it.",
    )
