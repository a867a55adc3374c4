"""Which state does a layer without attention keep?

Gated linear attention, Mamba and short convolutions keep a matrix for each head and the last inputs
of a convolution, whatever the length of the request. Names differ with every family; the sizes follow
vLLM's `MambaStateShapeCalculator` (`vllm/model_executor/layers/mamba/mamba_utils.py`).
"""

from stoker.core.capacity.architecture import LinearState
from stoker.core.capacity.fields import Fields

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def linear_state(text: Fields) -> LinearState | None:
    """What the layers that are not attention keep; None if the config describes no such layer."""
    readers = (_gated_delta_net, _kimi_delta, _mamba2, _mamba1, _short_convolution, _lightning)
    return next((state for read in readers if (state := read(text)) is not None), None)


def _gated_delta_net(text: Fields) -> LinearState | None:
    """Qwen3-Next, Qwen3.5 and later."""
    if not text.has("linear_num_value_heads"):
        return None
    value_heads = text.required("linear_num_value_heads", what="heads of linear attention")
    value_dim = text.integer("linear_value_head_dim") or 128
    return LinearState(
        key_heads=text.integer("linear_num_key_heads") or value_heads,
        value_heads=value_heads,
        key_dim=text.integer("linear_key_head_dim") or value_dim,
        value_dim=value_dim,
        conv_kernel=text.integer("linear_conv_kernel_dim") or 4,
        state_bytes_per_element=_BYTES.get(text.text("mamba_ssm_dtype")),
    )


def _kimi_delta(text: Fields) -> LinearState | None:
    """Kimi Linear."""
    inner = text.inner("linear_attn_config")
    heads, dim = inner.integer("num_heads"), inner.integer("head_dim")
    if heads is None or dim is None:
        return None
    return LinearState(
        key_heads=heads,
        value_heads=heads,
        key_dim=dim,
        value_dim=dim,
        conv_kernel=inner.integer("short_conv_kernel_size") or 4,
        state_bytes_per_element=4,
        checkpoints=1,
    )


def _mamba2(text: Fields) -> LinearState | None:
    """Nemotron-H, Bamba, Granite 4, Falcon-H1, Mamba 2."""
    heads = text.integer("mamba_n_heads", "mamba_num_heads")
    if heads is None and text.text("model_type") == "mamba2":
        heads = text.integer("num_heads")
    if heads is None:
        return None
    inner = text.integer("mamba_d_ssm")
    inner = inner or _whole_expansion(text) * (text.integer("hidden_size") or 1)
    # Nemotron-H keeps its state in float32 unless it says otherwise; the others in the model's type.
    default = "float32" if text.text("model_type").startswith("nemotron_h") else ""
    return LinearState(
        key_heads=text.integer("mamba_n_groups", "n_groups") or 1,
        value_heads=heads,
        key_dim=text.integer("mamba_d_state", "ssm_state_size", "state_size") or 128,
        value_dim=text.integer("mamba_d_head", "mamba_head_dim") or max(1, inner // heads),
        conv_kernel=text.integer("mamba_d_conv", "conv_kernel") or 4,
        state_bytes_per_element=_BYTES.get(text.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype") or default),
        checkpoints=1,
    )


def _mamba1(text: Fields) -> LinearState | None:
    """Jamba, Mamba: every channel has a state of its own, and only the channels pass the convolution."""
    state_size = text.integer("mamba_d_state", "state_size")
    if state_size is None:
        return None
    is_pure = text.text("model_type") in ("mamba", "falcon_mamba")
    inner = text.integer("intermediate_size") if is_pure else None
    return LinearState(
        key_heads=0,
        value_heads=inner or _whole_expansion(text) * (text.integer("hidden_size") or 1),
        key_dim=state_size,
        value_dim=1,
        conv_kernel=text.integer("mamba_d_conv", "conv_kernel") or 4,
    )


def _short_convolution(text: Fields) -> LinearState | None:
    """LFM2: the inputs of the convolution, and no other state."""
    kernel = text.integer("conv_L_cache")
    if kernel is None:
        return None
    channels = text.integer("conv_dim", "hidden_size") or 1
    return LinearState(key_heads=0, value_heads=channels, key_dim=0, value_dim=1, conv_kernel=kernel)


def _lightning(text: Fields) -> LinearState | None:
    """MiniMax-Text-01: one matrix for each head, no convolution."""
    heads = text.integer("num_attention_heads")
    if 0 not in text.integers("attn_type_list") or heads is None:
        return None
    dim = text.integer("head_dim") or max(1, (text.integer("hidden_size") or 1) // heads)
    return LinearState(
        key_heads=0, value_heads=heads, key_dim=dim, value_dim=dim, conv_kernel=1, state_bytes_per_element=4
    )


def _whole_expansion(text: Fields) -> int:
    return text.integer("mamba_expand", "expand") or 2
