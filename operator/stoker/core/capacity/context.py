"""How long may a request be, as the engine takes it from the config?

After vLLM 0.32: `ModelArchConfigConvertorBase.derive_max_model_len_and_key` and
`_get_and_verify_max_len`. Of several lengths the least counts. A stretched position encoding makes it
longer by its factor only for the kinds whose length is given unstretched: YaRN, Llama 3 and LongRoPE
already say the stretched one, and so does Gemma 3.
"""

from stoker.core.capacity.fields import MOST, Fields

_LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_STRETCHED = frozenset(
    {"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "default", "mrope"}
)


def read_context_length(text: Fields) -> int | None:
    """The engine's `max_model_len` where nobody sets it; None if the config says nothing.

    Example: `max_position_embeddings: 4096` with `rope_scaling: {type: linear, factor: 4}` -> 16,384.
    """
    lengths = [length for name in _LENGTHS if (length := text.integer(name)) is not None]
    if not lengths:
        return None
    length = text.integer("model_max_length") or min(lengths)
    kinds = {_kind(rope): rope for rope in _ropes(text)}
    if "longrope" in kinds or "su" in kinds:
        return text.integer("original_max_position_embeddings") or length
    if "gemma3" in text.text("model_type"):
        return length
    factors = [rope.number("factor") or 1.0 for kind, rope in kinds.items() if kind not in _STRETCHED]
    return min(int(length * max(factors, default=1.0)), MOST)


def _ropes(text: Fields) -> tuple[Fields, ...]:
    """Position encodings: one for all layers, or one for each kind of layer."""
    rope = text.inner("rope_parameters", "rope_scaling")
    return (rope, *text.objects("rope_parameters"))


def _kind(rope: Fields) -> str:
    return rope.text("rope_type", "type") or "default"
