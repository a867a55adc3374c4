"""Which layer keeps what?

Almost every model says it in one of a few ways: a list with a word for each layer, a pattern that
repeats, or nothing at all, which means that all layers are alike. A word that we do not know counts as
full attention, the most that a layer can keep, and the model says so in `unknown`.

A window that is as long as the longest request is no window: Phi-4 has one of 16,384 at a length of
16,384, and its published cache (237,040 tokens in 45.21 GiB) is that of full attention.
"""

from dataclasses import dataclass

from stoker.core.capacity.architecture import (
    ChunkedAttention,
    FullAttention,
    LatentAttention,
    LayerKind,
    SlidingWindow,
)
from stoker.core.capacity.fields import MOST_LAYERS, Fields, Unreadable
from stoker.core.capacity.linear_state import linear_state

_FULL, _WINDOW, _CHUNK, _LINEAR, _NOTHING = "full", "window", "chunk", "linear", "nothing"
_ATTENTION_AND_STATE = "attention and state"

_WORDS = {
    **dict.fromkeys(
        ("full_attention", "attention", "global", "global_attention", "hybrid", "deepseek_sparse_attention"),
        _FULL,
    ),
    **dict.fromkeys(("sliding_attention", "sliding_window", "local", "local_attention"), _WINDOW),
    "chunked_attention": _CHUNK,
    **dict.fromkeys(("linear_attention", "mamba", "mamba2", "conv", "recurrent", "kda"), _LINEAR),
    **dict.fromkeys(("mlp", "moe"), _NOTHING),
}
"""Words of `layer_types` and `layers_block_type`."""
_LETTERS = {"M": _LINEAR, "*": _FULL, "-": _NOTHING, "E": _NOTHING}
"""Letters of Nemotron-H's `hybrid_override_pattern`."""
_WINDOW_PERIODS = {
    "gemma2": 2,
    "gemma3": 6,
    "gemma3_text": 6,
    "gemma3n_text": 5,
    "gemma4_text": 6,
    "cohere2": 4,
}
"""Families whose every n-th layer sees everything and whose others have a window."""
_WITHOUT_ATTENTION = frozenset({"mamba", "mamba2", "falcon_mamba"})
_ENCODER = "an encoder keeps no keys and values: `max_num_seqs` alone bounds the requests at once"
_ENCODERS = frozenset(
    {
        "bert",
        "roberta",
        "xlm-roberta",
        "distilbert",
        "camembert",
        "electra",
        "nomic_bert",
        "modernbert",
        "new",
        "gte",
        "clip_text_model",
        "siglip_text_model",
    }
)
"""Model types that read a whole text at once: vLLM serves them for embeddings, without a cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """What the layers of a model keep."""

    kinds: tuple[LayerKind | None, ...]
    borrowing: tuple[LayerKind, ...]
    """Attention of layers at the end that use the keys and values of earlier ones."""
    unknown: tuple[str, ...]


def read_layers(text: Fields, *, context_length: int | None) -> Layers:
    """What each layer keeps, from the language model's part of a config."""
    count = layer_count(text)
    if text.text("model_type") in _ENCODERS or text.flag("use_bidirectional_attention"):
        return Layers(kinds=(None,) * count, borrowing=(), unknown=(_ENCODER,))
    if blocks := text.objects("block_configs"):
        return Layers(kinds=_searched(text, blocks), borrowing=(), unknown=())
    words, unknown = _words(text, count)
    state = linear_state(text)
    if state is None and {_LINEAR, _ATTENTION_AND_STATE} & set(words):
        words = [_FULL if word == _LINEAR else word for word in words]
        unknown = (*unknown, "the sizes of the linear layers are missing: they count as full attention")
    attention = {} if set(words) <= {_LINEAR, _NOTHING} else _attention(text, context_length)
    kinds: list[LayerKind | None] = []
    for word in words:
        if word == _ATTENTION_AND_STATE:
            kinds += [attention[_FULL], state]
        else:
            kinds.append(state if word == _LINEAR else attention.get(word))
    own = max(1, len(kinds) - (text.integer("num_kv_shared_layers", least=0) or 0))
    return Layers(
        kinds=(*kinds[:own], *(None,) * (len(kinds) - own)),
        borrowing=tuple(kind for kind in kinds[own:] if kind is not None),
        unknown=(*unknown, *_not_computed(text)),
    )


def layer_count(text: Fields) -> int:
    """Decoder layers."""
    names = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers")
    return text.required(*names, what="how many layers the model has", most=MOST_LAYERS)


def attention_heads(text: Fields) -> int:
    """Query heads; 0 for a model without attention."""
    if text.text("model_type") in _WITHOUT_ATTENTION:
        return 0
    names = ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads")
    return text.required(*names, what="attention heads of a layer")


def _words(text: Fields, count: int) -> tuple[list[str], tuple[str, ...]]:
    """One word for each layer, and what was not understood."""
    model_type = text.text("model_type")
    if pattern := text.text("hybrid_override_pattern"):
        return _known(list(pattern), _LETTERS, count)
    for name in ("layer_types", "layers_block_type"):
        if listed := text.texts(name):
            return _known(list(listed), _WORDS, count)
    if model_type in _WITHOUT_ATTENTION:
        return [_LINEAR] * count, ()
    if model_type == "falcon_h1":
        return [_ATTENTION_AND_STATE] * count, ()
    return [_word(text, index, model_type) for index in range(count)], ()


def _known(words: list[str], known: dict[str, str], count: int) -> tuple[list[str], tuple[str, ...]]:
    # vLLM takes the first entries where a config lists more (drafter layers at the end).
    words = (words + [words[-1]] * count)[:count]
    strange = sorted({word for word in words if word not in known})
    unknown = (f"layers of the kind {', '.join(strange)} count as full attention",) if strange else ()
    return [known.get(word, _FULL) for word in words], unknown


def _word(text: Fields, index: int, model_type: str) -> str:
    """What the config says of one layer where it has no word for it."""
    if (linear := _is_linear(text, index)) is not None:
        return _LINEAR if linear else _FULL
    if text.has("no_rope_layers") or model_type == "llama4_text":
        with_rope = text.integers("no_rope_layers")
        is_global = with_rope[index] == 0 if index < len(with_rope) else (index + 1) % 4 == 0
        return _FULL if is_global or not text.has("attention_chunk_size") else _CHUNK
    return _WINDOW if _has_window(text, index, model_type) else _FULL


def _is_linear(text: Fields, index: int) -> bool | None:
    """Whether a layer of a hybrid is one without attention; None if the model is no hybrid."""
    if (period := text.integer("full_attention_interval")) is not None:
        return (index + 1) % period != 0
    if (period := text.integer("attn_layer_period")) is not None:
        return index % period != (text.integer("attn_layer_offset", least=0) or 0)
    if text.has("attn_layer_indices"):
        return index not in text.integers("attn_layer_indices")
    if kimi := text.inner("linear_attn_config").integers("full_attn_layers"):
        return index + 1 not in kimi
    if 0 in (attention := text.integers("attn_type_list")):
        return index < len(attention) and attention[index] == 0
    return None


def _has_window(text: Fields, index: int, model_type: str) -> bool:
    if not _window(text):
        return False
    if pattern := text.integers("hybrid_layer_pattern"):  # MiMo-V2: 1 is a window
        return index < len(pattern) and pattern[index] == 1
    if text.has("max_window_layers"):  # Qwen, whose window is off unless a flag says otherwise
        return text.flag("use_sliding_window") and index >= (text.integer("max_window_layers", least=0) or 0)
    if model_type == "gpt_oss":
        return index % 2 == 0
    if letters := text.text("sliding_window_pattern"):  # EXAONE 4: LLLG
        return letters[index % len(letters)] == "L"
    period = text.integer("sliding_window_pattern", "_sliding_window_pattern") or _WINDOW_PERIODS.get(
        model_type
    )
    return period is None or (index + 1) % period != 0


def _window(text: Fields) -> int:
    """Tokens of the window; 0 without one."""
    return text.integer("sliding_window", "sliding_window_size", least=0) or 0


def _attention(text: Fields, context_length: int | None) -> dict[str, LayerKind]:
    """What a layer with attention keeps, by word."""
    if (rank := text.integer("kv_lora_rank")) is not None and text.text("model_type") != "minicpm3":
        latent = LatentAttention(
            rank=rank,
            rope_dim=text.integer("qk_rope_head_dim", least=0) or 0,
            indexer_dim=text.integer("index_head_dim", least=0) or 0,
        )
        return dict.fromkeys((_FULL, _WINDOW, _CHUNK), latent)
    if attention_heads(text) == 0:
        raise Unreadable("a layer has attention, but `model_type` is one without any; correct one of them")
    heads, dim, value_dim = _kv_heads(text), _head_dim(text), _value_dim(text)
    full = FullAttention(
        kv_heads=text.integer("num_global_key_value_heads") or heads,
        key_dim=text.integer("global_head_dim") or dim,
        value_dim=text.integer("global_head_dim") or value_dim,
    )
    window, chunk = _window(text), text.integer("attention_chunk_size") or 0
    longest = context_length or window + chunk + 1
    return {
        _FULL: full,
        _WINDOW: SlidingWindow(
            kv_heads=text.integer("swa_num_key_value_heads") or heads,
            key_dim=text.integer("swa_head_dim") or dim,
            value_dim=text.integer("swa_v_head_dim", "swa_head_dim") or value_dim,
            window=window,
        )
        if 0 < window < longest
        else full,
        _CHUNK: ChunkedAttention(kv_heads=heads, key_dim=dim, value_dim=value_dim, chunk=chunk)
        if 0 < chunk < longest
        else full,
    }


def _kv_heads(text: Fields) -> int:
    """Heads of the keys; those of the queries if the config has no other."""
    if text.flag("multi_query") and not text.flag("new_decoder_architecture"):  # Falcon, GPT-BigCode
        return 1
    if text.text("model_type") == "minicpm3":
        return attention_heads(text)
    names = (
        "n_head_kv",
        "num_kv_heads",
        "num_key_value_heads",
        "multi_query_group_num",
        "num_attention_groups",
    )
    for name in names:
        if listed := text.integers(name):  # one for each layer: the most of them bounds all
            return max(1, *listed)
    heads = text.integer(*names) or text.inner("attn_config").integer("kv_n_heads")
    return heads or attention_heads(text)


def _head_dim(text: Fields) -> int:
    """Elements of a query or key head."""
    if text.text("model_type") == "minicpm3":
        return (text.integer("qk_nope_head_dim") or 0) + (text.integer("qk_rope_head_dim") or 1)
    names = ("head_dim", "hidden_size_per_head", "attention_head_dim", "kv_channels")
    return text.integer(*names, least=0) or max(1, hidden_size(text) // attention_heads(text))


def _value_dim(text: Fields) -> int:
    is_padded = text.text("model_type") == "minicpm3"
    return _head_dim(text) if is_padded else text.integer("v_head_dim") or _head_dim(text)


def hidden_size(text: Fields) -> int:
    """Width of the residual stream."""
    return text.required("hidden_size", "n_embd", "d_model", what="width of the model")


def _searched(text: Fields, blocks: tuple[Fields, ...]) -> tuple[LayerKind | None, ...]:
    """Layers that an architecture search chose one by one (Nemotron-NAS): some are without attention."""
    heads, dim = attention_heads(text), _head_dim(text)
    kinds: list[LayerKind | None] = []
    for block in blocks:
        attention = block.inner("attention")
        if attention.flag("no_op") or attention.flag("replace_with_linear"):
            kinds.append(None)
            continue
        kv_heads = max(1, heads // (attention.integer("n_heads_in_group") or 1))
        kinds.append(FullAttention(kv_heads=kv_heads, key_dim=dim, value_dim=dim))
    return tuple(kinds)


def _not_computed(text: Fields) -> tuple[str, ...]:
    """What layers keep beyond what is computed here."""
    notes = {
        "compress_ratios": "compressed attention counts as if nothing were compressed",
        "sparse_attention_config": "the index of sparse attention is not computed",
    }
    found = [note for name, note in notes.items() if text.has(name)]
    if text.flag("is_encoder_decoder"):
        found.append("the keys and values of the encoder's output are not computed")
    return tuple(found)
