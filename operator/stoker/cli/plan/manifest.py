"""Which `InferenceService` says the same as the options?

A service of a file, or a new one, with the options laid over it: `--manifest` prints it, and with `-f` it
is what the answer is about.
"""

import re
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from stoker.api.names import API_VERSION, KIND
from stoker.cli.plan.options import Options
from stoker.core.model import JsonObject

_NOT_OF_A_NAME = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME = 50
"""Leaves room for a revision's hash in the 63 characters of a child's name."""


def is_local(model: str) -> bool:
    """Whether a model lies on this machine, where no pod can read it."""
    return "://" not in model


def new_service(model: str) -> JsonObject:
    """A service that only says where its model is.

    Example: `hf://Qwen/Qwen2.5-7B-Instruct` -> a service `qwen2-5-7b-instruct` with this `model.uri`; a
    model `./qwen` of this machine -> `pvc://models/qwen`, for the user to put right.
    """
    last = model.rstrip("/").removesuffix("/config.json").rpartition("/")[2]
    name = _NOT_OF_A_NAME.sub("-", last.lower())[:_LONGEST_NAME].strip("-") or "model"
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {"model": {"uri": f"pvc://models/{name}" if is_local(model) else model}, "accelerator": {}},
    }


def with_options(service: JsonObject, options: Options) -> JsonObject:
    """The service with what was typed in place of what it says, in fields and in arguments."""
    service = deepcopy(service)
    spec = service.setdefault("spec", {})
    uri = None if options.model is None or is_local(options.model) else options.model
    for part, field, value, flag in (
        ("model", "uri", uri, None),
        ("model", "revision", options.revision, None),
        ("model", "contextLength", options.context, "--max-model-len"),
        ("model", "quantization", options.quantization, "--quantization"),
        ("model", "kvCacheDtype", options.kv_dtype, "--kv-cache-dtype"),
        ("accelerator", "type", options.accelerator, None),
        ("accelerator", "count", options.count, "--tensor-parallel-size"),
    ):
        if value is not None:
            spec.setdefault(part, {})[field] = value
            _remove_argument(spec, flag)
    if options.max_num_seqs is not None:
        _remove_argument(spec, "--max-num-seqs")
        engine = spec.setdefault("engine", {})
        engine["args"] = [*engine.get("args", ()), "--max-num-seqs", str(options.max_num_seqs)]
    return service


def _remove_argument(spec: dict[str, Any], flag: str | None) -> None:
    """Take `--flag value` or `--flag=value` out of `engine.args`."""
    args = (spec.get("engine") or {}).get("args")
    if flag and args:
        spec["engine"]["args"] = list(_without(args, flag))


def _without(args: Sequence[str], flag: str) -> Sequence[str]:
    kept: list[str] = []
    skip_value = False
    for argument in args:
        name, has_value, _ = str(argument).partition("=")
        ours = name.replace("_", "-") == flag
        if not ours and not skip_value:
            kept.append(argument)
        skip_value = ours and not has_value
    return kept
