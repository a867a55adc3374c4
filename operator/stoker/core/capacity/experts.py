"""Which layers have experts, how many and how wide, and which have a plain MLP?

All experts lie in memory; those that a token passes matter for speed only. Families count differently:
from a layer on, every n-th, all but a list, or a letter for each layer.
"""

import math
from dataclasses import dataclass

from stoker.core.capacity.architecture import Experts
from stoker.core.capacity.fields import Fields
from stoker.core.capacity.layers import hidden_size, layer_count

_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_PER_TOKEN = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_top_k",
    "moe_k",
)
_WITHOUT_GATE = frozenset(
    {
        "gpt2",
        "gpt_bigcode",
        "gptj",
        "gpt_neox",
        "gpt_neo",
        "opt",
        "bloom",
        "falcon",
        "RefinedWeb",
        "RefinedWebModel",
        "mpt",
        "phi",
        "starcoder2",
        "nemotron",
        "nemotron_h",
        "codegen",
        "persimmon",
        "whisper",
        "bert",
        "roberta",
        "xlm-roberta",
        "distilbert",
        "camembert",
        "electra",
    }
)
"""Model types whose MLP is two matrices, not three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlps:
    """The MLPs of a model."""

    intermediate_size: int
    """Of a dense MLP, the mean where layers differ; 0 if no layer has one."""
    dense_layers: int
    experts: Experts | None
    matrices: int
    unknown: tuple[str, ...]


def read_mlps(text: Fields) -> Mlps:
    """The MLPs and experts of a model, from the language model's part of its config."""
    layers = layer_count(text)
    matrices = 2 if text.text("model_type") in _WITHOUT_GATE else 3
    if blocks := text.objects("block_configs"):
        return _searched(text, blocks, matrices)
    model_type = text.text("model_type")
    if model_type in ("mamba", "mamba2", "falcon_mamba"):
        return Mlps(intermediate_size=0, dense_layers=0, experts=None, matrices=matrices, unknown=())
    pattern = text.text("hybrid_override_pattern")
    # A single expert is an MLP; Falcon-H1 and Jamba say so in their configs.
    count = text.integer(*_COUNTS, least=0) or text.inner("ffn_config").integer("moe_num_experts") or 0
    sparse = [count > 1 and _has_experts(text, index) for index in range(layers)]
    expert_layers = pattern.count("E") if pattern else sum(sparse)
    dense_layers = pattern.count("-") if pattern else layers - expert_layers
    if text.flag("enable_moe_block"):  # Gemma 4: an MLP beside the experts of every layer
        dense_layers = layers
    unknown: list[str] = []
    experts = _experts(text, count, expert_layers, unknown) if expert_layers else None
    width = _dense_width(text, unknown) if dense_layers else 0
    return Mlps(
        intermediate_size=width,
        dense_layers=dense_layers,
        experts=experts,
        matrices=matrices,
        unknown=tuple(unknown),
    )


def _has_experts(text: Fields, index: int) -> bool:
    """Whether a layer of a model with experts has them."""
    if listed := text.texts("mlp_layer_types"):
        return index < len(listed) and listed[index] == "sparse"
    if text.is_list("moe_layer_freq"):
        frequencies = text.integers("moe_layer_freq")
        return index < len(frequencies) and frequencies[index] == 1
    if text.is_list("moe_layers"):
        return index in text.integers("moe_layers")
    if (period := text.integer("expert_layer_period")) is not None:  # Jamba
        return (index - (text.integer("expert_layer_offset", least=0) or 0)) % period == 0
    if (period := text.integer("interleave_moe_layer_step", "decoder_sparse_step")) is not None:
        return (index + 1) % period == 0 and index not in text.integers("mlp_only_layers")
    first = text.integer("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index", least=0) or 0
    return (
        index >= first and (index - first) % (text.integer("moe_layer_interval", "moe_layer_freq") or 1) == 0
    )


def _experts(text: Fields, count: int, layers: int, unknown: list[str]) -> Experts:
    inner = text.inner("ffn_config")
    width = text.integer("moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size")
    width = width or inner.integer("ffn_hidden_size") or text.integer("intermediate_size")
    width = width or _dense_width(text, unknown)
    per_token = text.integer(*_PER_TOKEN) or inner.integer("moe_top_k")
    if per_token is None:
        unknown.append("how many experts a token passes is missing: all of them are taken")
    return Experts(
        count=count,
        per_token=min(per_token or count, count),
        intermediate_size=width,
        shared_intermediate_size=_shared_width(text, width),
        layers=layers,
    )


def _shared_width(text: Fields, expert_width: int) -> int:
    """Inner width of what every token passes beside its experts."""
    if text.text("model_type") == "llama4_text":
        return expert_width
    names = (
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
        "share_expert_dim",
    )
    if (width := text.integer(*names, least=0)) is not None:
        return width
    shared = text.integer("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", least=0) or 0
    return shared * expert_width


def _dense_width(text: Fields, unknown: list[str]) -> int:
    names = (
        "intermediate_size_mlp",
        "dense_intermediate_size",
        "intermediate_size",
        "ffn_dim",
        "ffn_hidden_size",
        "n_inner",
        "decoder_ffn_dim",
        "inner_hidden_size",
    )
    if listed := text.integers("intermediate_size"):
        width = round(sum(listed) / len(listed))
    else:
        width = text.integer(*names) or 0
    if width == 0:
        if text.text("model_type") not in _WITHOUT_GATE:
            unknown.append("the width of the MLP is missing: four times that of the model is taken")
        return 4 * hidden_size(text)
    if text.flag("use_double_wide_mlp"):  # Gemma 4 E2B: twice as wide where keys and values are borrowed
        return round(width * (1 + (text.integer("num_kv_shared_layers", least=0) or 0) / layer_count(text)))
    return width


def _searched(text: Fields, blocks: tuple[Fields, ...], matrices: int) -> Mlps:
    """MLPs that an architecture search chose one by one (Nemotron-NAS)."""
    hidden = hidden_size(text)
    widths = [_searched_width(block.inner("ffn"), hidden) for block in blocks]
    dense = [width for width in widths if width]
    return Mlps(
        intermediate_size=round(sum(dense) / len(dense)) if dense else 0,
        dense_layers=len(dense),
        experts=None,
        matrices=matrices,
        unknown=(),
    )


def _searched_width(mlp: Fields, hidden: int) -> int:
    """Two thirds of `ffn_mult` times the width of the model, up to a multiple of 256; 0 without an MLP."""
    if mlp.flag("no_op"):
        return 0
    if mlp.flag("replace_with_linear"):  # one matrix from and to the model's width: a third of three
        return math.ceil(hidden / 3)
    if (width := mlp.integer("intermediate_size")) is not None:
        return width
    return math.ceil(int(2 * (mlp.number("ffn_mult") or 0) * hidden / 3) / 256) * 256
