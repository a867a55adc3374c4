"""What is a model, as far as memory and speed depend on it?

A transformer is a list of layers, and each layer keeps something for every request: keys and values
of all tokens, of the last ones only, one compressed vector for each token, or a state whose size does
not grow. `model_config.py` reads these from a `config.json`.
"""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class FullAttention:
    """Keys and values of every token: MHA, GQA or MQA, by the number of heads."""

    kv_heads: int
    key_dim: int
    """Elements of a key, per head."""
    value_dim: int
    """Elements of a value, per head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindow:
    """Keys and values of the last `window` tokens."""

    kv_heads: int
    key_dim: int
    value_dim: int
    window: int
    """Tokens that a query sees, itself among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedAttention:
    """Keys and values of the present chunk of `chunk` tokens (Llama 4)."""

    kv_heads: int
    key_dim: int
    value_dim: int
    chunk: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """One compressed vector for each token, the same on every tensor-parallel rank (MLA)."""

    rank: int
    """Elements of the compressed vector (`kv_lora_rank`)."""
    rope_dim: int
    """Elements that carry the position (`qk_rope_head_dim`)."""
    indexer_dim: int = 0
    """Elements that a sparse indexer keeps for each token (`index_head_dim`); 0 without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearState:
    """A state of fixed size for each request: gated linear attention, or Mamba.

    For Mamba 2 the heads and `value_dim` are those of its inner layer, `key_dim` is its state size and
    `key_heads` its number of groups.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int
    """Width of the convolution before it; its last `conv_kernel - 1` inputs are kept."""
    state_bytes_per_element: int | None = None
    """Bytes per element of the recurrent state (`mamba_ssm_dtype`); None as the model's own type."""


LayerKind: TypeAlias = FullAttention | SlidingWindow | ChunkedAttention | LatentAttention | LinearState


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The experts of a mixture-of-experts model."""

    count: int
    per_token: int
    """Experts that each token is sent to."""
    intermediate_size: int
    """Inner width of one expert."""
    shared_intermediate_size: int
    """Inner width of what every token passes beside them; 0 without."""
    layers: int
    """Layers that have experts; the others are dense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """How the weights of the linear layers are stored."""

    method: str
    """vLLM's name: `fp8`, `awq`, `gptq`, `mxfp4`, `modelopt_fp4`, `compressed-tensors`, `bitsandbytes` ..."""
    bits: float
    """Bits of one weight, without scales."""
    group_size: int
    """Weights that share a scale (and zero point); 0 for one scale per channel or tensor."""
    kept_modules: tuple[str, ...] = ()
    """Modules left in the model's own type, as the config names them (`lm_head`, `router` ...)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A model's `config.json`, read."""

    architecture: str
    """First of its `architectures`, such as `Qwen2ForCausalLM`."""
    layers: tuple[LayerKind | None, ...]
    """What each decoder layer keeps, in order; None for one that keeps nothing of its own."""
    hidden_size: int
    vocab_size: int
    attention_heads: int
    intermediate_size: int
    """Inner width of a dense MLP; 0 if no layer has one."""
    experts: Experts | None
    tied_embeddings: bool
    """Whether the output head is the input embedding."""
    bytes_per_element: int
    """Of the type that the model computes in (`torch_dtype`): 2 for bfloat16 and float16, 4 for float32."""
    quantization: Quantization | None
    context_length: int | None
    """Most tokens of a request that the model was made for; None if its config does not say."""
    multimodal: bool = False
    """Whether it also takes pictures or sound, whose encoder needs memory that is not computed."""
    unknown: tuple[str, ...] = ()
    """What could not be read, one sentence each, with the safe assumption that stands in for it."""
