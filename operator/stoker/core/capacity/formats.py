"""How many bits does a weight take, scales included, in each component of a quantized model?

A config names what is kept in 16 bits (and what is stored in another format) by module: a whole name, a
name with `*`, or an expression. They are compared with the names that modules have in almost every model
on the hub, `layers.7.self_attn.q_proj` and the like, layer by layer, because some are kept in the first
layers only.

Expressions come from a user's file, so they are not run as such, which could take for ever: what people
write in them (`.*`, `\\d+`, a choice in brackets) is turned into names with `*`; an expression that holds
anything else matches nothing, and its modules count as quantized.
"""

import fnmatch
import itertools
import re
from collections.abc import Sequence
from enum import StrEnum

from stoker.core.capacity.architecture import Quantization

_SIXTEEN = 16.0
"""Bits of a weight that is not quantized, unless the engine computes in float32."""
_MOST_CHOICES = 64


class Component(StrEnum):
    """What is quantized in one way; the value is a module of it, as it is named within a layer."""

    ATTENTION = "self_attn.q_proj"
    LATENT_DOWN = "self_attn.kv_a_proj_with_mqa"
    LINEAR = "linear_attn.in_proj_qkv"
    DENSE_MLP = "mlp.gate_proj"
    ROUTED_EXPERTS = "mlp.experts.0.gate_proj"
    SHARED_EXPERTS = "mlp.shared_experts.gate_proj"


def bits_per_weight(
    quantization: Quantization | None,
    component: Component,
    *,
    layers: Sequence[int],
    unquantized: float = _SIXTEEN,
) -> float:
    """Bits of one weight of a component, the mean over its layers, with its part of scales and zeros.

    `unquantized` are the bits of one that is left in the type that the engine computes in.

    Example: AWQ with 4 bits and groups of 128: 4 + (16 + 4) / 128 = 4.16.
    """
    if quantization is None:
        return unquantized
    if not layers or not (quantization.kept_modules or quantization.exceptions):
        return _bits(quantization, quantization.bits, quantization.group_size)
    kept = _Names(quantization.kept_modules)
    exceptions = [(_Names(form.modules), form) for form in quantization.exceptions]
    total = 0.0
    for layer in layers:
        names = [f"layers.{layer}.{module}" for module in _modules(component)]
        form = next((form for listed, form in exceptions if listed.match(names)), None)
        if form is not None:
            total += _bits(quantization, form.bits, form.group_size)
        elif kept.match(names):
            total += unquantized
        else:
            total += _bits(quantization, quantization.bits, quantization.group_size)
    return total / len(layers)


def output_head_bits(quantization: Quantization | None, *, unquantized: float = _SIXTEEN) -> float:
    """Bits of one weight of the output head: `unquantized` unless the config names it as quantized."""
    if quantization is not None:
        for form in quantization.exceptions:
            if _Names(form.modules).match(["lm_head"]):
                return _bits(quantization, form.bits, form.group_size)
    return unquantized


def _modules(component: Component) -> tuple[str, ...]:
    """Names that a component's module goes by in one layer or another."""
    names = {
        Component.LATENT_DOWN: ("self_attn.q_a_proj",),
        Component.LINEAR: ("linear_attn.in_proj_qkvz", "mixer.in_proj", "mamba.in_proj"),
        Component.ROUTED_EXPERTS: ("block_sparse_moe.experts.0.w1", "mixer.experts.0.up_proj"),
        Component.SHARED_EXPERTS: ("mlp.shared_expert.gate_proj", "shared_mlp.input_linear"),
    }
    return (component.value, *names.get(component, ()))


def _bits(quantization: Quantization, bits: float, group_size: int) -> float:
    """Bits of one weight with its part of what its group shares."""
    if bits >= _SIXTEEN:
        return _SIXTEEN
    if group_size == 0:
        return bits  # a scale for each channel, or one for all: nothing against the weights
    return bits + _shared_bits(quantization.method, bits, group_size) / group_size


def _shared_bits(method: str, bits: float, group_size: int) -> float:
    """Bits of the scale, and of the zero point where there is one, of a group."""
    if method in ("awq", "gptq", "auto-round", "auto_awq"):
        return 16 + bits
    if (
        bits == 4 and (group_size == 16 or method in ("mxfp4", "quark", "bitsandbytes"))
    ) or method == "mxfp8":
        return 8
    return 32 if group_size >= 1024 else 16


class _Names:
    """Names of modules from a config, ready to be compared."""

    def __init__(self, written: tuple[str, ...]) -> None:
        self._plain: set[str] = set()
        self._patterns: list[re.Pattern[str]] = []
        for name in itertools.chain.from_iterable(_globs(text) for text in written):
            short = _without_prefix(name)
            if "*" not in short.rstrip("*"):
                self._plain.add(short.rstrip("*").rstrip("."))
            else:
                self._patterns.append(re.compile(fnmatch.translate(f"*{short}*")))

    def match(self, names: list[str]) -> bool:
        """Whether one of these modules, or one that it lies in, is meant."""
        return any(self._match(name) for name in names)

    def _match(self, name: str) -> bool:
        if "" in self._plain:  # a lone `*`
            return True
        parts = name.split(".")
        runs = (".".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1))
        return any(run in self._plain for run in runs) or any(p.match(name) for p in self._patterns)


def _without_prefix(name: str) -> str:
    """A name without what stands before its layers, which differs from model to model."""
    before, layers, after = name.partition("layers.")
    return (
        layers + after if layers and not before.strip("*").endswith("mtp.") else name.removeprefix("model.")
    )


def _globs(written: str) -> list[str]:
    """A name as it is, or the names with `*` that an expression stands for."""
    if not written.startswith("re:"):
        return [written]
    text = re.sub(r"(\.[*+]|\\d[+*]?|\[0-9\][+*]?)\??", "*", written.removeprefix("re:")).replace("\\.", ".")
    parts = re.split(r"\(\?:|[()]", text.removeprefix("^").removesuffix("$"))
    choices = [part.split("|") for part in parts]
    names = ["".join(choice) for choice in itertools.islice(itertools.product(*choices), _MOST_CHOICES)]
    return [name for name in names if not re.search(r"[\\\[\]{}+?^$|]", name)]
