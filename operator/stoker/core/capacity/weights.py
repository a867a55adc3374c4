"""How many bytes are the weights, and how many of them does each accelerator hold?

The best source is the files' own headers: every tensor with its type and shape. Next is the sum of the
files. Without either the config tells it: parameters times the bits of their format, with embeddings,
output head, norms and routers in the type that the engine computes in: 16 bits, or 32 with
`--dtype float32`, which also makes what the files hold in 16 bits twice as large.

Tensor parallelism splits the matrices of attention, MLPs and experts, and the vocabulary; every rank
holds norms, routers and the projections to compressed vectors (MLA) whole. Expert parallelism gives
whole experts to ranks instead of parts of all: the same bytes. Engines side by side (data parallelism)
share the experts out among them, and nothing else. Pipeline parallelism gives layers to ranks; the
largest stage counts. Where there are more ranks than key-value heads the keys' projections
are repeated; that is under 0.1 % and left out.

Two things are not in the files. MLA keeps its two up-projections a second time, unquantized, in the order
in which decoding multiplies them (`W_UV`, `W_UK_T`). The kernels for MXFP4 experts want their inner
width as a multiple of 256 (2,880 becomes 3,072): gpt-oss-20b loads 13.47 GiB from 12.8 GiB of files.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from stoker.core.capacity.architecture import LatentAttention, LinearState, ModelConfig, Quantization
from stoker.core.capacity.engine_settings import EngineSettings
from stoker.core.capacity.formats import Component, bits_per_weight, output_head_bits
from stoker.core.capacity.parameters import parameters

_VOCABULARY_MULTIPLE = 64
"""vLLM pads the vocabulary to this (`vocab_parallel_embedding.py`)."""
_MXFP4_MULTIPLE = 256
_DTYPE_BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F4": 0.5}
"""Bytes of an element by safetensors' name of its type; 8-bit names carry an 8, all others are 2."""
_UNQUANTIZED = ("F32", "F16", "BF16")
"""Types that the engine casts to the one it computes in."""
_KEEPS_ITS_TYPE = re.compile(r"scale|absmax|quant|e_score_correction|A_log|\.D$|dt_bias|zero")
_REPLICATED = re.compile(
    r"\.(q_a_proj|kv_a_proj|kv_a_proj_with_mqa|indexer|router|gate|shared_expert_gate)\."
)
_NOT_LOADED = re.compile(r"(^|\.)mtp\.|rotary_emb\.inv_freq")
_ENCODER = re.compile(r"vis(ion|ual)|audio")
_WITHOUT_DIGITS = str.maketrans("", "", "0123456789")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d{1,4})\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeights:
    """What a model's files hold."""

    total_bytes: int
    """Of all weight files, each tensor once."""
    tensors: Mapping[str, tuple[str, tuple[int, ...]]] | None
    """Type and shape by name, from the headers; None if only the total is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSize:
    """Bytes of the weights as the engine holds them."""

    total: int
    experts: int
    """Of the routed experts."""
    replicated: int
    """What every tensor-parallel rank holds whole."""
    embedding: int
    output_head: int
    """0 if it is the embedding."""
    layers: int
    """Layers that pipeline stages share out."""
    basis: str
    """What it was computed from: `headers`, `files` or `config`."""

    def per_rank(self, settings: EngineSettings) -> int:
        """Bytes on the accelerator that holds most.

        Example: 67.72 GiB, of which 0.04 are held whole, over 2 ranks -> 33.88 GiB.
        """
        stages = _stages(self.layers, settings.pipeline_parallel)
        return max(self._stage(index, stages, settings) for index in range(len(stages)))

    def _stage(self, index: int, stages: list[int], settings: EngineSettings) -> int:
        """Bytes on each rank of one pipeline stage."""
        share = stages[index] / self.layers
        body = self.total - self.embedding - self.output_head - self.experts - self.replicated
        vocabulary = self.embedding if index == 0 else 0
        if index == len(stages) - 1:
            # A tied embedding is the output head too: the last stage needs it, if it is not the first.
            vocabulary += self.output_head or (self.embedding if index else 0)
        experts = share * self.experts / settings.data_parallel
        split = share * body + experts + vocabulary
        return round(share * self.replicated + split / settings.tensor_parallel)


def weights_size(model: ModelConfig, *, stored: StoredWeights | None) -> WeightsSize:
    """The weights of a model as the engine holds it, from the best source at hand."""
    if stored is None:
        return _from_config(model)
    if stored.tensors is not None:
        return _from_headers(model, stored.tensors)
    return _from_total(model, stored.total_bytes)


def _from_config(model: ModelConfig) -> WeightsSize:
    count = parameters(model)
    element = model.bytes_per_element
    embedding = _padded(model.vocab_size, _VOCABULARY_MULTIPLE) * model.hidden_size * element
    head = 0
    if count.output_head:
        head_bits = output_head_bits(model.quantization, unquantized=8 * element)
        head = round(embedding * head_bits / (8 * element))
    size = {
        Component.ATTENTION: count.attention,
        Component.LATENT_DOWN: count.latent_down,
        Component.LINEAR: count.linear,
        Component.DENSE_MLP: count.dense_mlp,
        Component.ROUTED_EXPERTS: count.routed_experts * _expert_padding(model),
        Component.SHARED_EXPERTS: count.shared_experts,
    }
    used = {
        component: round(number * bits / 8)
        for component, number in size.items()
        for bits in [
            bits_per_weight(
                model.quantization,
                component,
                layers=_layers_of(model, component),
                unquantized=8 * element,
            )
        ]
    }
    whole = element * (count.norms + count.router)
    others = whole + element * (count.other + count.encoder) + _absorbed(model)
    return WeightsSize(
        total=embedding + head + sum(used.values()) + others,
        experts=used[Component.ROUTED_EXPERTS],
        replicated=whole + used[Component.LATENT_DOWN],
        embedding=embedding,
        output_head=head,
        layers=len(model.layers),
        basis="config",
    )


def _from_total(model: ModelConfig, total_bytes: int) -> WeightsSize:
    """What the config gives, times what the files hold over what it gives for them."""
    computed, in_files = _from_config(model), _as_stored(model)
    expected = _from_config(in_files)
    padding = expected.experts - expected.experts / _expert_padding(in_files)
    factor = total_bytes / (expected.total - _absorbed(in_files) - padding)
    return WeightsSize(
        total=round(computed.total * factor),
        experts=round(computed.experts * factor),
        replicated=round(computed.replicated * factor),
        embedding=round(computed.embedding * factor),
        output_head=round(computed.output_head * factor),
        layers=computed.layers,
        basis="files",
    )


def _as_stored(model: ModelConfig) -> ModelConfig:
    """The model as its files have it, before the engine casts or quantizes anything."""
    quantization = model.quantization
    if quantization is None or quantization.on_the_fly:
        return replace(model, quantization=None, bytes_per_element=model.stored_bytes_per_element)
    return replace(model, bytes_per_element=2)


def _from_headers(model: ModelConfig, tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> WeightsSize:
    """Every tensor as the engine holds it."""
    sums = dict.fromkeys(("experts", "replicated", "embedding", "head", "rest"), 0)
    # A large model has 100,000 tensors, of which some dozens differ in more than their numbers.
    seen: dict[tuple[str, str, tuple[int, ...]], tuple[str, int]] = {}
    for name, (dtype, shape) in tensors.items():
        if _is_after_the_last_layer(model, name):
            continue
        alike = (name.translate(_WITHOUT_DIGITS), dtype, shape)
        if alike not in seen:
            part = _part(name, shape)
            size = 0 if _NOT_LOADED.search(name) else _tensor_bytes(model, name, dtype, shape, part)
            seen[alike] = (part, size)
        part, size = seen[alike]
        sums[part] += size
    if model.tied_embeddings:
        sums["head"] = 0
    sums["experts"] = round(sums["experts"] * _expert_padding(model))
    return WeightsSize(
        total=sum(sums.values()) + _absorbed(model),
        experts=sums["experts"],
        replicated=sums["replicated"],
        embedding=sums["embedding"],
        output_head=sums["head"],
        layers=len(model.layers),
        basis="headers",
    )


def _is_after_the_last_layer(model: ModelConfig, name: str) -> bool:
    """Whether a tensor is of a drafter, which the engine does not load; an encoder counts its own layers."""
    layer = _LAYER.search(name)
    return layer is not None and int(layer[1]) >= len(model.layers) and not _ENCODER.search(name)


def _part(name: str, shape: tuple[int, ...]) -> str:
    if re.search(r"embed_tokens(?!_per_layer)|word_embeddings|\bwte\b|embed_in", name):
        return "embedding"
    if re.search(r"(^|\.)(lm_head|embed_out|output_layer)\.", name):
        return "head"
    if ".experts." in name:
        return "experts"
    return "replicated" if len(shape) < 2 or _REPLICATED.search(name) else "rest"


def _tensor_bytes(model: ModelConfig, name: str, dtype: str, shape: tuple[int, ...], part: str) -> int:
    elements = 1
    for size in shape:
        elements *= size
    if part in ("embedding", "head") and shape:
        elements = elements // max(1, shape[0]) * _padded(shape[0], _VOCABULARY_MULTIPLE)
    stored = _DTYPE_BYTES.get(dtype, 1 if "8" in dtype or dtype == "BOOL" else 2)
    if dtype in _UNQUANTIZED and not _KEEPS_ITS_TYPE.search(name):
        stored = model.bytes_per_element
    if model.quantization and model.quantization.on_the_fly and _is_quantized_now(part, shape):
        stored = _on_the_fly_bits(model.quantization) / 8
    return round(elements * stored)


def _is_quantized_now(part: str, shape: tuple[int, ...]) -> bool:
    return part in ("rest", "experts") and len(shape) >= 2


def _on_the_fly_bits(quantization: Quantization) -> float:
    return bits_per_weight(quantization, Component.DENSE_MLP, layers=())


def _layers_of(model: ModelConfig, component: Component) -> list[int]:
    """Numbers of the layers that a component is in."""
    if component is Component.LINEAR:
        return [i for i, kind in enumerate(model.layers) if isinstance(kind, LinearState)]
    if component in (Component.ATTENTION, Component.LATENT_DOWN):
        return [i for i, kind in enumerate(model.layers) if kind and not isinstance(kind, LinearState)]
    return list(range(len(model.layers)))


def _absorbed(model: ModelConfig) -> int:
    """Bytes of the up-projections of MLA that decoding keeps a second time."""
    latent = model.latent
    if latent is None:
        return 0
    ranks = sum(kind.rank for kind in model.layers if isinstance(kind, LatentAttention))
    return model.bytes_per_element * ranks * model.attention_heads * (latent.nope_dim + latent.value_dim)


def _expert_padding(model: ModelConfig) -> float:
    """How much larger experts are with their inner width padded."""
    if model.experts is None or model.quantization is None or model.quantization.method != "mxfp4":
        return 1.0
    width = model.experts.intermediate_size
    return _padded(width, _MXFP4_MULTIPLE) / width


def _stages(layers: int, stages: int) -> list[int]:
    """Layers of each pipeline stage, as vLLM deals them out: what is over goes to the last but one."""
    counts = [layers // stages] * stages
    for index in range(2, layers % stages + 2):
        counts[-index] += 1
    return counts


def _padded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
