"""How are the weights stored? `quantization_config` of every common method, in one form.

Each quantizer writes its own words. What memory needs is small: bits of a weight, how many weights
share a scale, and which modules were left alone. A method that we do not know counts as 16 bits, the
most it can be, and the model says so in `unknown`.

The names that turn up here are those of vLLM (`vllm/model_executor/layers/quantization`).
"""

from dataclasses import replace

from stoker.core.capacity.architecture import ModuleFormat, Quantization
from stoker.core.capacity.fields import Fields

_CONFIGS = ("quantization_config", "compression_config")
_EVERY_MODULE = "*"
_LINEAR = "Linear"
_KEPT_NAMES = (
    "modules_to_not_convert",
    "ignored_layers",
    "llm_int8_skip_modules",
    "ignore",
    "exclude",
    "exclude_modules",
)
_ON_THE_FLY = {
    "fp8": Quantization(method="fp8", bits=8, group_size=0, on_the_fly=True),
    "fp8_per_tensor": Quantization(method="fp8", bits=8, group_size=0, on_the_fly=True),
    "fp8_per_block": Quantization(method="fp8", bits=8, group_size=128 * 128, on_the_fly=True),
    "bitsandbytes": Quantization(method="bitsandbytes", bits=4, group_size=64, on_the_fly=True),
    "mxfp8": Quantization(method="mxfp8", bits=8, group_size=32, on_the_fly=True),
    "int8_per_channel_weight_only": Quantization(method="int8", bits=8, group_size=0, on_the_fly=True),
}
"""What vLLM makes of 16-bit weights when `--quantization` asks for it."""


def read_quantization(config: Fields, text: Fields) -> tuple[Quantization | None, tuple[str, ...]]:
    """The quantization of a model, None without one, and what of it is not understood."""
    places = (config, text)
    found = next((place.inner(*_CONFIGS) for place in places if place.has(*_CONFIGS)), None)
    if found is None:
        return None, ()
    method = _method(found)
    kept = _kept(found) + _kept(found.inner("quantization"))
    if groups := found.objects("config_groups"):
        return _grouped(method, groups, kept), ()
    quantization = _plain(method, found)
    if quantization is None:
        return None, (f"the quantization method `{method or 'without a name'}` counts as 16 bits a weight",)
    return replace(quantization, kept_modules=kept), ()


def read_kv_cache_dtype(config: Fields, text: Fields) -> str:
    """What the engine's `auto` is for the KV cache of a model: `fp8`, `nvfp4`, or `auto` if it says nothing.

    Source: `get_kv_cache_quant_algo_string` in `vllm/utils/torch_utils.py`, and `Attention.__init__`.
    """
    found = [place.inner(*_CONFIGS) for place in (config, text)]
    places = [place for outer in found for place in (outer.inner("quantization"), outer)]
    scheme = next((place.inner("kv_cache_scheme") for place in places if place.has("kv_cache_scheme")), None)
    if scheme is not None:
        return {8: "fp8", 4: "nvfp4"}.get(scheme.integer("num_bits") or 0, "auto")
    algorithms = (place.text("kv_cache_quant_algo").lower() for place in places)
    return next((algorithm for algorithm in algorithms if algorithm in ("fp8", "nvfp4")), "auto")


def with_argument(quantization: Quantization | None, argument: str | None) -> Quantization | None:
    """The quantization that the engine ends up with, given its `--quantization`.

    The files decide: the argument chooses kernels for weights that are quantized already (`awq_marlin`),
    and quantizes only those that are not. A method that cannot do so is the engine's to refuse.
    """
    return quantization or _ON_THE_FLY.get(argument or "")


def _method(found: Fields) -> str:
    method = found.text("quant_method").lower().replace("compressed_tensors", "compressed-tensors")
    return method or found.inner("producer").text("name").lower()


def _kept(found: Fields) -> tuple[str, ...]:
    return next((names for name in _KEPT_NAMES if (names := found.texts(name))), ())


def _plain(method: str, found: Fields) -> Quantization | None:
    """A method with one format for all modules; None if it is not known."""
    block = found.integers("weight_block_size")
    group = found.integer("group_size", "q_group_size", least=-1) or 0
    bits = found.integer("bits", "w_bit", "weight_bits", "nbits", most=16)
    if method in ("fp8", "fbgemm_fp8", "ptpc_fp8"):
        return Quantization(method=method, bits=8, group_size=block[0] * block[-1] if block else 0)
    if method in ("mxfp4", "gpt_oss_mxfp4"):
        return Quantization(method="mxfp4", bits=4, group_size=32)
    if method == "bitsandbytes":
        is_4bit = found.flag("load_in_4bit")
        return Quantization(method=method, bits=4 if is_4bit else 8, group_size=64 if is_4bit else 0)
    if method.startswith("modelopt"):
        return _modelopt(found.text("quant_algo") or found.inner("quantization").text("quant_algo"))
    if method == "quark":
        return _quark(found.inner("global_quant_config").inner("weight").text("dtype"))
    if bits is not None:  # awq, gptq, auto-round, hqq ...
        return Quantization(method=method, bits=bits, group_size=max(0, group))
    return None


def _modelopt(algorithm: str) -> Quantization | None:
    algorithm = algorithm.upper()
    if "FP4" in algorithm:
        return Quantization(method="modelopt_fp4", bits=4, group_size=16)
    if "FP8" in algorithm or "INT8" in algorithm:
        return Quantization(method="modelopt", bits=8, group_size=0)
    return None


def _quark(dtype: str) -> Quantization | None:
    if dtype in ("fp4", "int4", "uint4"):
        return Quantization(method="quark", bits=4, group_size=32)
    return Quantization(method="quark", bits=8, group_size=0) if "8" in dtype else None


def _grouped(method: str, groups: tuple[Fields, ...], kept: tuple[str, ...]) -> Quantization:
    """compressed-tensors and new ModelOpt files: a format for each list of modules."""
    formats = [_group_format(group) for group in groups]
    rest = next((form for form in formats if _LINEAR in form.modules), None)
    listed = tuple(form for form in formats if form is not rest)
    main = rest or min(listed, key=lambda form: form.bits)
    is_fp4 = main.bits == 4 and main.group_size == 16
    return Quantization(
        method="modelopt_fp4" if method == "modelopt" and is_fp4 else method,
        bits=main.bits,
        group_size=main.group_size,
        kept_modules=kept if rest else (*kept, _EVERY_MODULE),
        exceptions=listed,
    )


def _group_format(group: Fields) -> ModuleFormat:
    weights = group.inner("weights")
    block = weights.integers("block_structure")
    size = weights.integer("group_size", least=-1) or 0
    return ModuleFormat(
        modules=group.texts("targets"),
        bits=weights.integer("num_bits", most=16) or 16,
        group_size=block[0] * block[-1] if block else max(0, size),
    )
