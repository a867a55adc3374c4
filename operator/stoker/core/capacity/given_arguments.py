"""Which arguments of vLLM does a list of words give? Those that capacity depends on, by their long name.

vLLM's parser takes `--name value`, `--name=value`, underscores for dashes, a few short forms, `--no-name`
for a switch, and `--name.key value` for one key of a JSON object; the last one of a name counts
(`FlexibleArgumentParser`). Other arguments are passed over: the engine checks them itself.

Rejected: argparse, which leaves the program at the first mistake, and completes names that it was not told.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.api.reasons import Reason
from stoker.core.model import Refusal

SPECULATIVE = "--speculative-config"

_SHORT = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-dcp": "--decode-context-parallel-size",
    "-q": "--quantization",
    "-ep": "--enable-expert-parallel",
    "-sc": SPECULATIVE,
    "--device-memory-utilization": "--gpu-memory-utilization",
}
_SPECULATIVE_KEYS = {
    "--spec-method": "method",
    "--spec-model": "model",
    "--spec-tokens": "num_speculative_tokens",
}
_WITH_VALUE = frozenset({
    "--block-size",
    "--config",
    "--cpu-offload-gb",
    "--data-parallel-size",
    "--decode-context-parallel-size",
    "--dtype",
    "--gpu-memory-utilization",
    "--hf-config-path",
    "--hf-overrides",
    "--kv-cache-dtype",
    "--kv-cache-memory-bytes",
    "--mamba-ssm-cache-dtype",
    "--max-model-len",
    "--max-num-batched-tokens",
    "--max-num-seqs",
    "--performance-mode",
    "--pipeline-parallel-size",
    "--quantization",
    "--tensor-parallel-size",
})  # fmt: skip
_SWITCHES = frozenset({
    "--async-scheduling",
    "--disable-hybrid-kv-cache-manager",
    "--enable-expert-parallel",
    "--enable-prefix-caching",
    "--enforce-eager",
})  # fmt: skip

_WITH_SUFFIX = ("--kv-cache-memory-bytes", "--max-model-len", "--max-num-batched-tokens")
_MULTIPLES = {
    "": 1,
    **{letter: 1000 ** (i + 1) for i, letter in enumerate("kmgt")},
    **{letter: 1024 ** (i + 1) for i, letter in enumerate("KMGT")},
}


@dataclass(slots=True)
class GivenArguments:
    """What was given."""

    values: dict[str, str] = field(default_factory=dict)
    switches: dict[str, bool] = field(default_factory=dict)
    speculative: dict[str, Any] = field(default_factory=dict)
    """The object of `--speculative-config`, whichever way it was given."""


def given_arguments(args: Sequence[str]) -> GivenArguments | Refusal:
    """What the words give.

    Example: `-tp 2 --max_num_seqs=64 --no-enable-prefix-caching` gives two values and a switch.
    """
    given = GivenArguments()
    words = list(args)
    while words:
        name, equals, value = words.pop(0).partition("=")
        name, _, key = _long_name(name).partition(".")
        switch = name if name in _SWITCHES else f"--{name.removeprefix('--no-')}"
        if switch in _SWITCHES:
            given.switches[switch] = name == switch
            continue
        speculative = name == SPECULATIVE or name in _SPECULATIVE_KEYS
        if not speculative and name not in _WITH_VALUE:
            continue
        if not equals:
            if not words or words[0].startswith("--"):
                return refused(f"{name} has no value; give one or remove it")
            value = words.pop(0)
        if speculative:
            if wrong := _speculative(given, key or _SPECULATIVE_KEYS.get(name, ""), value):
                return wrong
        else:
            given.values[name] = value
    return given


def whole_number(
    values: Mapping[str, str], name: str, *, most: int, where: str = "engine.args"
) -> int | Refusal | None:
    """The whole number from 1 that an argument of the field `where` gives; None if it is not given.

    Lengths and sizes may have a suffix: `1k` is 1,000 and `1K` is 1,024, and only the former may follow a
    fraction. Source: `human_readable_int` in `vllm/utils/argparse_utils.py`.
    """
    if name not in values:
        return None
    text = values[name].strip()
    match = re.fullmatch(r"(-?\d+)(\.\d+(?=[kmgt]))?([kKmMgGtT]?)", text)
    if match is None or (match[3] and name not in _WITH_SUFFIX):
        example = "64 or 32k" if name in _WITH_SUFFIX else "64"
        return refused(
            f"{name} is `{text}`, which is not a whole number; give one such as {example}", where=where
        )
    number = int(float(match[1] + (match[2] or "")) * _MULTIPLES[match[3]])
    if not 1 <= number <= most:
        return refused(f"{name} is {text}; give a number from 1 to {most:,}", where=where)
    return number


def refused(problem: str, *, where: str = "engine.args") -> Refusal:
    """A refusal of what the field `where` says."""
    return Refusal(reason=Reason.INVALID_SPEC, message=f"`{where}`: {problem}")


def _long_name(name: str) -> str:
    if not name.startswith("--"):
        return _SHORT.get(name, name)
    first, dot, key = name.partition(".")
    first = first.replace("_", "-")
    return _SHORT.get(first, first) + dot + key


def _speculative(given: GivenArguments, key: str, value: str) -> Refusal | None:
    if key:
        given.speculative[key] = value
        return None
    try:
        config = json.loads(value)
    except ValueError:
        config = None
    if not isinstance(config, dict):
        return refused(f'{SPECULATIVE} is not a JSON object; give one such as {{"method": "ngram"}}')
    given.speculative |= config
    return None
