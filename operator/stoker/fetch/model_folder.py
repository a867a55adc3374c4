"""What does a folder say of the model in it: config, quantization, and what its weights take?

The same questions are asked of a repository, a bucket and a folder on disk. So this module reads
nothing: `read_folder` asks for the first bytes of files and is answered, and `model_files.py` brings
them from wherever they are. Bounds on bytes and requests are here, in what is asked for.

Which weights count is what vLLM loads (`DefaultModelLoader._prepare_weights`): safetensors at the top
of the folder, else pickled ones. Of several sets of safetensors the one in the index counts.

Rejected: downloading the index always (9 MB for DeepSeek-V3), as names say as much for one set.
"""

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from stoker.api.reasons import TerminationClass
from stoker.core.capacity.weights import StoredWeights
from stoker.core.model import JsonObject
from stoker.fetch import model_kind
from stoker.fetch.errors import FetchError
from stoker.fetch.model_json import json_object
from stoker.fetch.safetensors import Header, header_bytes, read_header
from stoker.fetch.selection import needed

MOST_JSON_BYTES = 4 * 1024 * 1024
"""A config is some kilobytes; one that lists each module it leaves unquantized, some hundred."""
MOST_INDEX_BYTES = 32 * 1024 * 1024
MOST_HEADERS = 200
"""Files whose headers are read, one request each: DeepSeek-V3 has 163."""
FIRST_HEADER_BYTES = 256 * 1024
"""Asked for at first: holds all but the headers of some thousand tensors."""
MOST_HEADER_BYTES = 64 * 1024 * 1024
"""Of all headers together."""

_INDEX = "model.safetensors.index.json"
_SHARD = re.compile(r"(.*)-\d{5}-of-(\d{5})\.safetensors")
_QUANTIZATION_FILES = {
    "hf_quant_config.json": None,
    "quantize_config.json": "gptq",
    "quant_config.json": "awq",
}
"""Where quantization stood before it stood in config.json, and the method where the file names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The first bytes of a file, asked for."""

    path: str
    length: int
    """Most bytes; a shorter file gives fewer."""
    vital: bool = True
    """Whether nothing can be said without it; otherwise None is an answer too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderModel:
    """The model of a folder."""

    config: JsonObject
    """config.json, with the quantization that a separate file states."""
    stored: StoredWeights | None
    """What the files of the weights hold; None if there are none, or their sizes are not known."""


T = TypeVar("T")
Reading: TypeAlias = Generator[tuple[Start, ...], tuple[bytes | None, ...], T]
"""Yields what it wants to know, is sent the answers, and returns what they come to."""


def read_folder(sizes: Mapping[str, int | None], *, name: str, weights_needed: bool) -> Reading[FolderModel]:
    """The model in the folder that holds these files, with their sizes where known.

    `name` is what a person calls it. Without `weights_needed` a config alone is enough.
    """
    if "config.json" not in sizes:
        adapter = {}
        if "adapter_config.json" in sizes:
            adapter = yield from _json("adapter_config.json", sizes, name=name)
        raise model_kind.without_config(list(sizes), name=name, adapter=adapter)
    config = yield from _json("config.json", sizes, name=name)
    model_kind.check_config(config, list(sizes), name=name, weights_needed=weights_needed)
    config = yield from _with_quantization(config, sizes, name=name)
    stored = yield from _stored(sizes, name=name)
    return FolderModel(config=config, stored=stored)


def answer(
    reading: Reading[FolderModel], starts: tuple[bytes | None, ...]
) -> tuple[Start, ...] | FolderModel:
    """Go on with what was asked for: what to ask for next, or the model."""
    try:
        return reading.send(starts)
    except StopIteration as done:
        model: FolderModel = done.value
        return model


def _json(path: str, sizes: Mapping[str, int | None], *, name: str) -> Reading[JsonObject]:
    what = f"{name}: {path}"
    if (sizes[path] or 0) <= MOST_JSON_BYTES:
        (data,) = yield (Start(path=path, length=MOST_JSON_BYTES + 1),)
        assert data is not None
        if len(data) <= MOST_JSON_BYTES:
            return json_object(data, what=what)
    raise FetchError(
        TerminationClass.MODEL_UNSUPPORTED,
        f"{what} is larger than {MOST_JSON_BYTES // 1024**2} MiB, which no such file is",
        fix="Put the file in order, as the model's authors publish it.",
    )


def _with_quantization(
    config: JsonObject, sizes: Mapping[str, int | None], *, name: str
) -> Reading[JsonObject]:
    """The config with what a separate file says of quantization, as vLLM's `get_config` and
    `get_quant_config` take it: only where the config itself says nothing."""
    text = config.get("text_config")
    said = [config.get("quantization_config"), config.get("compression_config")]
    said.append(text.get("quantization_config") if isinstance(text, dict) else None)
    if any(said):
        return config
    for path, method in _QUANTIZATION_FILES.items():
        if path in sizes:
            quantization = yield from _json(path, sizes, name=name)
            if method is not None:
                quantization.setdefault("quant_method", method)
            return {**config, "quantization_config": quantization}
    return config


def _stored(sizes: Mapping[str, int | None], *, name: str) -> Reading[StoredWeights | None]:
    kept = {path: sizes[path] for path in needed(list(sizes)) if "/" not in path}
    files = {path: size for path, size in kept.items() if path.endswith(".safetensors")}
    if not files:
        pickled = [size for path, size in kept.items() if model_kind.is_pickled(path)]
        known = sum(size for size in pickled if size is not None)
        return StoredWeights(total_bytes=known, tensors=None) if pickled and None not in pickled else None
    indexed_bytes = None
    if _INDEX in kept and (None in files.values() or not _is_one_set(files)):
        files, indexed_bytes = yield from _indexed(files, kept[_INDEX], name=name)
    headers = yield from _headers(files, name=name)
    if headers is not None:
        tensors = {key: value for header in headers for key, value in header.tensors.items()}
        return StoredWeights(total_bytes=sum(header.weights_bytes for header in headers), tensors=tensors)
    if None not in files.values():
        indexed_bytes = sum(size for size in files.values() if size is not None)
    return None if indexed_bytes is None else StoredWeights(total_bytes=indexed_bytes, tensors=None)


def _is_one_set(files: Mapping[str, int | None]) -> bool:
    """Whether the names say that these files are one model: a single file, or all shards of one set."""
    shards = {match.groups() if (match := _SHARD.fullmatch(path)) else None for path in files}
    return len(files) == 1 or (len(shards) == 1 and None not in shards)


def _indexed(
    files: dict[str, int | None], index_bytes: int | None, *, name: str
) -> Reading[tuple[dict[str, int | None], int | None]]:
    """The files that the index names, and the bytes that it states; all files where it is no help."""
    if index_bytes is not None and index_bytes > MOST_INDEX_BYTES:
        return files, None
    (data,) = yield (Start(path=_INDEX, length=MOST_INDEX_BYTES + 1, vital=False),)
    if data is None or len(data) > MOST_INDEX_BYTES:
        return files, None
    index = json_object(data, what=f"{name}: {_INDEX}")
    weight_map, metadata = index.get("weight_map"), index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    names = set(map(str, weight_map.values())) if isinstance(weight_map, dict) else set()
    if missing := sorted(names - files.keys()):
        raise FetchError(
            TerminationClass.WEIGHTS_MISSING, f"{name}: {_INDEX} names `{missing[0]}`, which is not there"
        )
    named = {path: size for path, size in files.items() if path in names}
    return named or files, int(total) if isinstance(total, int | float) and total > 0 else None


def _headers(files: Mapping[str, int | None], *, name: str) -> Reading[list[Header] | None]:
    """The header of each file; None if that would be too much to read, or one can't be had."""
    if len(files) > MOST_HEADERS:
        return None
    asked = dict.fromkeys(files, FIRST_HEADER_BYTES)
    starts: dict[str, bytes] = {}
    while asked:
        if sum(asked.values()) + sum(map(len, starts.values())) > MOST_HEADER_BYTES:
            return None
        answers = yield tuple(Start(path=path, length=length, vital=False) for path, length in asked.items())
        for path, answer in zip(asked, answers, strict=True):
            if answer is None:
                return None
            starts[path] = answer
        wanted = {path: header_bytes(starts[path], what=f"{name}: {path}") for path in asked}
        asked = {path: length for path, length in wanted.items() if length > asked[path]}
    return [
        read_header(start, what=f"{name}: {path}", size_bytes=files[path]) for path, start in starts.items()
    ]
