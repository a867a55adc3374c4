"""Which tensors does a safetensors file hold? Its header says it, without the weights being read.

The file starts with the length of the header (8 bytes, little-endian) and the header, a JSON object of
`{name: {dtype, shape, data_offsets}}`; the weights follow. The format allows 100 MB of header.
"""

from dataclasses import dataclass

from stoker.api.reasons import TerminationClass
from stoker.core.model import JsonObject
from stoker.fetch.errors import FetchError
from stoker.fetch.model_json import json_object, refuse_lfs_pointer

LENGTH_BYTES = 8
_MOST_HEADER_BYTES = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The tensors of one file."""

    tensors: dict[str, tuple[str, tuple[int, ...]]]
    """Type, such as `BF16` or `F8_E4M3`, and shape of each."""
    weights_bytes: int
    """What follows the header in a whole file."""


def header_bytes(start: bytes, *, what: str) -> int:
    """Bytes from the start of the file to the end of its header; `start` is at least what there is of
    the first 8. Raises `FetchError` for a file that can't be one."""
    refuse_lfs_pointer(start, what=what)
    length = int.from_bytes(start[:LENGTH_BYTES], "little")
    if len(start) < LENGTH_BYTES or not 2 <= length <= _MOST_HEADER_BYTES:
        raise _broken(f"{what} is not a safetensors file: it does not start with the length of a header")
    return LENGTH_BYTES + length


def read_header(start: bytes, *, what: str, size_bytes: int | None) -> Header:
    """The header of a file that starts with `start`, which holds it whole; raises `FetchError`.

    `size_bytes` is the size of the file: one that ends before its last tensor was not copied whole.
    """
    end = header_bytes(start, what=what)
    document = json_object(start[LENGTH_BYTES:end], what=f"the header of {what}")
    document.pop("__metadata__", None)
    tensors, weights_bytes = {}, 0
    for name, described in document.items():
        dtype, shape, tensor_end = _tensor(described, name=name, what=what)
        tensors[name] = (dtype, shape)
        weights_bytes = max(weights_bytes, tensor_end)
    if size_bytes is not None and end + weights_bytes > size_bytes:
        raise _broken(
            f"{what} has {size_bytes} bytes, and {end + weights_bytes} by its header: it is not there whole"
        )
    return Header(tensors=tensors, weights_bytes=weights_bytes)


def _tensor(described: JsonObject, *, name: str, what: str) -> tuple[str, tuple[int, ...], int]:
    try:
        dtype, shape, (_, end) = described["dtype"], described["shape"], described["data_offsets"]
    except (KeyError, TypeError, ValueError):
        dtype, shape, end = None, [], None
    if not isinstance(dtype, str) or not isinstance(shape, list) or not all(map(_is_size, [*shape, end])):
        raise _broken(f"the header of {what} does not describe the tensor `{name[:100]}` as it should")
    return dtype, tuple(shape), end


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _broken(message: str) -> FetchError:
    return FetchError(
        TerminationClass.WEIGHTS_CORRUPT,
        message,
        fix="Fetch or copy the file again, and compare its SHA-256 with the one its source states.",
    )
