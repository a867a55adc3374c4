"""How many bytes does one token take in one layer of the KV cache? By the type it is stored in.

vLLM names the types in `CacheDType` (`vllm/config/cache.py`). Most are a number of bytes for each
element. The others carry scales with the data, and their sizes are set where the kernels are.

TurboQuant and UltraQuant pack 3 to 8 bits and leave some layers as they are. They are counted as one
byte for each element, which is never too little for a model of 24 layers or more.
"""

from collections.abc import Callable, Mapping

from stoker.core.capacity.architecture import (
    ChunkedAttention,
    FullAttention,
    LatentAttention,
    LinearState,
    ModelConfig,
    SlidingWindow,
)

_SCALE_BYTES = 4
"""A float32 scale for each token and head (`TritonAttentionBackend.customize_spec`)."""
_INDEXER_SCALE_BYTES = 4
_INDEXER_SCALED = 128
"""Elements of the indexer's vector that share a scale (`quant_block_size`)."""

_ONE_BYTE = (
    "fp8",
    "fp8_e4m3",
    "fp8_e5m2",
    "fp8_inc",
    "turboquant_k8v4",
    "turboquant_4bit_nc",
    "turboquant_k3v4_nc",
    "turboquant_3bit_nc",
    "ultraquant_4bit",
)
_PACKED_LATENT = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""Bytes of a whole latent vector of 512 + 64, scales included (`MLAAttention.get_kv_cache_spec`)."""

_VECTOR_BYTES: Mapping[str, Callable[[int], int]] = {
    "float16": lambda elements: 2 * elements,
    "bfloat16": lambda elements: 2 * elements,
    **dict.fromkeys((*_ONE_BYTE, *_PACKED_LATENT), lambda elements: elements),
    "int8_per_token_head": lambda elements: elements + _SCALE_BYTES,
    "fp8_per_token_head": lambda elements: elements + _SCALE_BYTES,
    "int4_per_token_head": lambda elements: elements // 2 + _SCALE_BYTES,
    # `nvfp4_kv_cache_full_dim`: two elements in a byte, and a one-byte scale for each 16.
    **dict.fromkeys(("nvfp4", "nvfp4_4over6"), lambda elements: elements // 2 + elements // 16),
}
"""Bytes of one key or value vector of so many elements."""

KV_CACHE_DTYPES = ("auto", *sorted(_VECTOR_BYTES))
"""What `--kv-cache-dtype` takes in vLLM 0.32."""

INEXACT_DTYPES = frozenset(d for d in _ONE_BYTE if not d.startswith("fp8"))
"""Types whose size is a bound here."""


def stored_dtype(asked: str, *, model: ModelConfig) -> str:
    """The type that the cache is kept in: `auto` is what the model's files ask for, if they do."""
    return model.kv_cache_dtype if asked == "auto" else asked


def vector_bytes(elements: int, *, kv_cache_dtype: str, bytes_per_element: int) -> int:
    """Bytes of one key or value vector; `bytes_per_element` is the model's own type, for `auto`.

    Example: 128 elements are 256 in bfloat16, 128 in fp8 and 64 + 8 = 72 in nvfp4.
    """
    stored = _VECTOR_BYTES.get(kv_cache_dtype)
    return stored(elements) if stored else elements * bytes_per_element


def attention_bytes(
    layer: FullAttention | SlidingWindow | ChunkedAttention, *, heads: int, kv_cache_dtype: str, own: int
) -> int:
    """Bytes of a token's keys and values in a layer that keeps `heads` heads on a rank.

    `own` is bytes per element of the model's own type. Example: 8 heads of 128 in bfloat16 take
    8 * (256 + 256) = 4,096.
    """
    key, value = (
        vector_bytes(elements, kv_cache_dtype=kv_cache_dtype, bytes_per_element=own)
        for elements in (layer.key_dim, layer.value_dim)
    )
    return heads * (key + value)


def latent_bytes(layer: LatentAttention, *, kv_cache_dtype: str, own: int) -> int:
    """Bytes of a token's latent vector (MLA): one, whatever the number of heads or ranks.

    With a sparse indexer every fp8 is stored as `fp8_ds_mla`
    (`_canonicalize_sparse_mla_kv_cache_dtype`). The plain NVFP4 layouts are not for latent vectors;
    vLLM refuses them, so they count as the model's own type.

    Example: 512 + 64 elements in bfloat16 take 1,152.
    """
    if layer.indexer_dim and kv_cache_dtype.startswith("fp8"):
        kv_cache_dtype = "fp8_ds_mla"
    if packed := _PACKED_LATENT.get(kv_cache_dtype):
        return packed
    if not latent_takes(kv_cache_dtype):
        kv_cache_dtype = "auto"
    return vector_bytes(layer.rank + layer.rope_dim, kv_cache_dtype=kv_cache_dtype, bytes_per_element=own)


def latent_takes(kv_cache_dtype: str) -> bool:
    """Whether vLLM stores latent vectors in this type (`validate_nvfp4_kv_cache_with_mla`)."""
    return not kv_cache_dtype.startswith("nvfp4") or kv_cache_dtype in _PACKED_LATENT


def indexer_bytes(layer: LatentAttention) -> int:
    """Bytes of a token in a sparse indexer's own cache: fp8 with a float32 scale for each 128.

    Source: `Indexer` in `vllm/model_executor/models/deepseek_v2.py`. Example: 128 -> 132.
    """
    return layer.indexer_dim + layer.indexer_dim // _INDEXER_SCALED * _INDEXER_SCALE_BYTES


def state_bytes(layer: LinearState, *, tensor_parallel: int, speculative_tokens: int, own: int) -> int:
    """Bytes that a linear-attention or Mamba layer keeps for one request on one rank.

    The recurrent state, and the last inputs of the convolution before it; a draft of n tokens needs n
    inputs more. Groups (key heads) that do not divide by the ranks are repeated.

    Source: `MambaStateShapeCalculator` in `vllm/model_executor/layers/mamba/mamba_utils.py`.

    Example: 32 value heads of 128 x 128 in float32 and a kernel of 4 over 8,192 inputs in bfloat16
    take 2,097,152 + 8,192 * 3 * 2 = 2,146,304.
    """
    key_heads = layer.key_heads
    if key_heads % tensor_parallel:
        key_heads = max(key_heads, tensor_parallel)
    inputs = 2 * key_heads * layer.key_dim + layer.value_heads * layer.value_dim
    convolution = -(-inputs // tensor_parallel) * (layer.conv_kernel - 1 + speculative_tokens) * own
    heads = -(-layer.value_heads // tensor_parallel)
    element = own if layer.state_bytes_per_element is None else layer.state_bytes_per_element
    return heads * layer.key_dim * layer.value_dim * element + convolution
