"""What kind of model does a `config.json` describe?

Nothing is downloaded and no code of the model runs: the sizes in its config are enough. A config is
read strictly where a wrong number would give a wrong answer, and leniently everywhere else. An
architecture that nobody here has heard of is not refused: every layer keeps all keys and values until
the config says otherwise, so what is computed is a bound, and `unknown` says what was assumed.

Files that look like a config but describe something else (a diffusion pipeline, an adapter, a GGUF
file's header, a tokenizer) get a sentence that says what they are and what is needed.

Under vLLM's `auto` a model computes in 16 bits: float32 checkpoints are cast while they load
(`_resolve_auto_dtype`), so `bytes_per_element` is 2 for all of them. `container.py` puts that of `--dtype` in
its place.
"""

from collections.abc import Mapping
from typing import Any

from stoker.api.reasons import Reason
from stoker.core.capacity.architecture import LatentAttention, LatentProjections, LayerKind, ModelConfig
from stoker.core.capacity.context import read_context_length
from stoker.core.capacity.experts import read_mlps
from stoker.core.capacity.fields import Fields, Unreadable
from stoker.core.capacity.layers import attention_heads, hidden_size, read_layers
from stoker.core.capacity.quantization import read_kv_cache_dtype, read_quantization
from stoker.core.model import Refusal

_LANGUAGE_PARTS = ("text_config", "llm_config", "language_config", "thinker_config", "decoder")
_OTHER_PARTS = ("vision_config", "audio_config", "visual", "vision_tower", "mm_vision_tower", "speech_config")
_TYPES = ("torch_dtype", "dtype")
_TIED = frozenset(
    {
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3_text",
        "gemma3n",
        "gemma3n_text",
        "gemma4",
        "gemma4_text",
        "gpt2",
        "gpt_bigcode",
        "opt",
        "bloom",
        "falcon",
        "RefinedWeb",
        "RefinedWebModel",
        "mpt",
        "cohere",
        "cohere2",
        "starcoder2",
        "mamba",
        "mamba2",
        "bert",
        "roberta",
        "whisper",
    }
)
"""Model types whose output head is the input embedding unless they say otherwise."""


def read_model_config(config: object) -> ModelConfig | Refusal:
    """A model as far as memory and speed depend on it, or why the config does not describe one.

    Example: 28 layers, 28 heads, 4 key-value heads, width 3,584 (Qwen2.5-7B) -> 28 layers that each
    keep 4 heads of 128 elements.
    """
    if not isinstance(config, Mapping):
        return _refuse(f"the config is {_kind_of(config)}, not an object; give the model's `config.json`")
    if (what := _something_else(Fields(config))) is not None:
        return _refuse(what)
    try:
        return _read(Fields(config))
    except Unreadable as problem:
        return _refuse(f"the model's config cannot be used: {problem}")


def _read(config: Fields) -> ModelConfig:
    text = _language_part(config)
    context_length = read_context_length(text)
    layers = read_layers(text, context_length=context_length)
    mlps = read_mlps(text)
    quantization, not_understood = read_quantization(config, text)
    unknown = (*layers.unknown, *mlps.unknown, *not_understood)
    if context_length is None:
        unknown = (*unknown, "the config says no longest request: vLLM takes 2,048 tokens")
    return ModelConfig(
        architecture=_architecture(config, text),
        layers=layers.kinds,
        borrowing=layers.borrowing,
        hidden_size=hidden_size(text),
        vocab_size=text.required("vocab_size", "padded_vocab_size", what="size of the vocabulary"),
        attention_heads=attention_heads(text),
        intermediate_size=mlps.intermediate_size,
        dense_layers=mlps.dense_layers,
        mlp_matrices=mlps.matrices,
        experts=mlps.experts,
        tied_embeddings=_is_tied(config, text),
        bytes_per_element=2,
        stored_bytes_per_element=4 if "float32" in (config.text(*_TYPES), text.text(*_TYPES)) else 2,
        quantization=quantization,
        context_length=context_length,
        kv_cache_dtype=read_kv_cache_dtype(config, text),
        multimodal=config.has(*_OTHER_PARTS),
        latent=_latent(text, layers.kinds),
        query_gate=text.flag("attn_output_gate", default=text.text("model_type") == "qwen3_next"),
        other_parameters=_other_parameters(text),
        encoder_parameters=_encoder_parameters(config.inner("vision_config")),
        unknown=unknown,
    )


def _something_else(config: Fields) -> str | None:
    """What a file is that is no model config; None if it may be one."""
    if config.has("_class_name", "_diffusers_version"):
        return (
            "this is a diffusion model, which vLLM does not serve as a language model; give a language model"
        )
    if config.has("peft_type", "base_model_name_or_path") and not config.has("architectures"):
        return "this is an adapter (LoRA or the like) without its base model; give the base model"
    if config.has("general.architecture", "gguf_version"):
        return "these are the metadata of a GGUF file; give the `config.json` of the model it was made from"
    if config.has("tokenizer_class", "added_tokens_decoder", "added_tokens") and not config.has(
        "architectures", "model_type", "hidden_size"
    ):
        return "this is a tokenizer without a model; give the model's `config.json`"
    if config.has("weight_map") and not config.has("architectures"):
        return "this is the index of a model's weights; give the `config.json` beside it"
    return None


def _language_part(config: Fields) -> Fields:
    """The part that describes the language model; the whole config unless it is nested."""
    for name in _LANGUAGE_PARTS:
        part = config.inner(name)
        if part.has("hidden_size", "num_hidden_layers", "n_embd", "d_model", "text_config"):
            return _language_part(part)
    return config


def _architecture(config: Fields, text: Fields) -> str:
    names = config.texts("architectures") or text.texts("architectures")
    return names[0] if names else config.text("model_type") or "unknown"


def _is_tied(config: Fields, text: Fields) -> bool:
    default = config.flag("tie_word_embeddings", default=text.text("model_type") in _TIED)
    return text.flag("tie_word_embeddings", default=default)


def _latent(text: Fields, kinds: tuple[LayerKind | None, ...]) -> LatentProjections | None:
    if not any(isinstance(kind, LatentAttention) for kind in kinds):
        return None
    return LatentProjections(
        query_rank=text.integer("q_lora_rank", least=0) or 0,
        nope_dim=text.integer("qk_nope_head_dim", least=0) or 128,
        value_dim=text.integer("v_head_dim", least=0) or 128,
        indexer_heads=text.integer("index_n_heads", least=0) or 0,
    )


def _other_parameters(text: Fields) -> int:
    """Learned positions, and Gemma's embedding of every token for every layer."""
    positions = 0
    if text.text("model_type") in ("gpt2", "gpt_bigcode", "opt", "bert", "roberta"):
        positions = (text.integer("n_positions", "max_position_embeddings") or 0) * hidden_size(text)
    width = text.integer("hidden_size_per_layer_input", least=0) or 0
    vocabulary = text.integer("vocab_size_per_layer_input", "vocab_size") or 0
    layers = text.integer("num_hidden_layers") or 0
    # The embedding itself, its projection from the model's width, and a gate and a projection in each layer.
    return positions + width * layers * (vocabulary + 3 * hidden_size(text))


def _encoder_parameters(vision: Fields) -> int:
    """Of a vision transformer: attention and MLP of each layer, and one projection into the model.

    Roughly: patches, norms and mergers differ with every family and are small.
    """
    width = vision.integer("hidden_size", "vt_hidden_size", "width") or 0
    layers = vision.integer("depth", "num_hidden_layers", "vt_num_hidden_layers", "layers") or 0
    inner = vision.integer("intermediate_size", "vt_intermediate_size") or 4 * width
    return layers * (4 * width * width + 2 * width * inner)


def _kind_of(value: object) -> str:
    kinds: dict[type[Any], str] = {list: "a list", str: "a text", type(None): "empty"}
    return kinds.get(type(value), "a single value")


def _refuse(message: str) -> Refusal:
    return Refusal(reason=Reason.NOT_ESTIMATED, message=message)
