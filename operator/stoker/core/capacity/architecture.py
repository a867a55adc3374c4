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
    checkpoints: int = 0
    """States more that a request keeps for prefix caching, where a long prompt is not cut at blocks."""


LayerKind: TypeAlias = FullAttention | SlidingWindow | ChunkedAttention | LatentAttention | LinearState


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentProjections:
    """The matrices around latent attention, of which the cache keeps nothing."""

    query_rank: int
    """Elements that a query is compressed to (`q_lora_rank`); 0 if it is not."""
    nope_dim: int
    """Elements of a query head that carry no position (`qk_nope_head_dim`)."""
    value_dim: int
    """Elements of a value head (`v_head_dim`)."""
    indexer_heads: int = 0
    """Heads of the sparse indexer (`index_n_heads`)."""


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
class ModuleFormat:
    """A format that some modules are stored in."""

    modules: tuple[str, ...]
    """Their names, as the config has them: whole, with `*`, or `re:` and an expression."""
    bits: float
    group_size: int


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
    exceptions: tuple[ModuleFormat, ...] = ()
    """Modules that are quantized in another way than the rest."""
    on_the_fly: bool = False
    """Whether the files hold the model's own type, and the engine quantizes while it loads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A model's `config.json`, read."""

    architecture: str
    """First of its `architectures`, such as `Qwen2ForCausalLM`."""
    layers: tuple[LayerKind | None, ...]
    """What each decoder layer keeps, in order; None for one that keeps nothing of its own. A layer with
    attention and a state beside it (Falcon-H1) stands here as two."""
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
    kv_cache_dtype: str = "auto"
    """What `--kv-cache-dtype auto` is for it: `fp8` or `nvfp4` where its files ask for that, `auto` where
    it is the type that the model computes in."""
    multimodal: bool = False
    """Whether it also takes pictures or sound, whose encoder needs memory that is not computed."""
    stored_bytes_per_element: int = 2
    """Of the type that unquantized files hold (`torch_dtype`): float32 is cast while it is loaded."""
    latent: LatentProjections | None = None
    """Of the layers with latent attention; None if there are none."""
    borrowing: tuple[LayerKind, ...] = ()
    """Attention of the layers that use the keys and values of earlier ones: weights, but no cache."""
    dense_layers: int = 0
    """Layers with an MLP of `intermediate_size`, beside or instead of experts."""
    mlp_matrices: int = 3
    """Matrices of an MLP or expert: 3 with a gate, 2 without."""
    query_gate: bool = False
    """Whether the queries bring a gate of their own size for the attention's output (Qwen3-Next)."""
    other_parameters: int = 0
    """Parameters of the language model outside the layers' matrices and the vocabulary: learned
    positions, Gemma's embeddings for each layer."""
    encoder_parameters: int = 0
    """Parameters of the encoder for pictures, roughly; 0 without, or if its config is not readable."""
    unknown: tuple[str, ...] = ()
    """What could not be read, one sentence each, with the safe assumption that stands in for it."""
