"""Models as values, for tests that need the layers and not the reading of a `config.json`."""

from stoker.core.capacity.architecture import (
    FullAttention,
    LatentAttention,
    LayerKind,
    LinearState,
    ModelConfig,
    SlidingWindow,
)
from stoker.core.capacity.engine_settings import EngineSettings


def model(*layers: LayerKind | None, **changes: object) -> ModelConfig:
    """A model of these layers; what the KV cache does not depend on is as in Llama-3.1-8B."""
    fields: dict[str, object] = {
        "architecture": "LlamaForCausalLM",
        "layers": layers,
        "hidden_size": 4096,
        "vocab_size": 128_256,
        "attention_heads": 32,
        "intermediate_size": 14_336,
        "experts": None,
        "tied_embeddings": False,
        "bytes_per_element": 2,
        "quantization": None,
        "context_length": 131_072,
    }
    return ModelConfig(**(fields | changes))  # type: ignore[arg-type]


def settings(**changes: object) -> EngineSettings:
    """Arguments of an engine whose steps do not overlap, as in the versions that the readings are from."""
    fields: dict[str, object] = {
        "max_num_seqs": 256,
        "max_num_batched_tokens": 2048,
        "concurrent_batches": 1,
    }
    return EngineSettings(**(fields | changes))  # type: ignore[arg-type]


def full(heads: int, size: int) -> FullAttention:
    """Attention to all tokens: key-value heads and the elements of each."""
    return FullAttention(kv_heads=heads, key_dim=size, value_dim=size)


def window(heads: int, size: int, tokens: int) -> SlidingWindow:
    """Attention to the last tokens."""
    return SlidingWindow(kv_heads=heads, key_dim=size, value_dim=size, window=tokens)


def uniform(layers: int, heads: int, size: int) -> ModelConfig:
    """A model whose layers are all alike."""
    return model(*[full(heads, size)] * layers)


def latent(layers: int, rank: int, rope: int, indexer: int = 0) -> ModelConfig:
    """A model with latent attention (MLA)."""
    return model(*[LatentAttention(rank=rank, rope_dim=rope, indexer_dim=indexer)] * layers)


def gated(value_heads: int) -> LinearState:
    """Gated DeltaNet as in Qwen3-Next and Qwen3.5: 16 key heads, all of 128, a kernel of 4."""
    return LinearState(
        key_heads=16,
        value_heads=value_heads,
        key_dim=128,
        value_dim=128,
        conv_kernel=4,
        state_bytes_per_element=4,
    )


def every_fourth(count: int, attention: FullAttention, state: LinearState) -> ModelConfig:
    """Three layers with a state before each one with attention."""
    return model(*[state, state, state, attention] * count)


LLAMA_8B = uniform(32, 8, 128)
LLAMA_70B = uniform(80, 8, 128)
QWEN2_5_0_5B = uniform(24, 2, 64)
QWEN2_5_32B = uniform(64, 8, 128)
QWEN3_8B = uniform(36, 8, 128)
QWEN3_14B = uniform(40, 8, 128)
QWEN3_32B = uniform(64, 8, 128)
QWEN3_30B_A3B = uniform(48, 4, 128)
PHI_4 = uniform(40, 10, 128)
MINISTRAL_3_14B = uniform(40, 8, 128)
MINIMAX_M2_7 = uniform(62, 8, 128)
DEEPSEEK_V3 = latent(61, 512, 64)
DEEPSEEK_V3_2 = latent(61, 512, 64, indexer=128)
MISTRAL_SMALL_4 = latent(36, 256, 64)
QWEN3_6_35B_A3B = every_fourth(10, full(2, 256), gated(32))
QWEN3_5_27B = every_fourth(16, full(4, 256), gated(48))
# The state of the logged run was in the model's own type.
QWEN3_NEXT_80B = every_fourth(
    12,
    full(2, 256),
    LinearState(key_heads=16, value_heads=32, key_dim=128, value_dim=128, conv_kernel=4),
)
GPT_OSS_20B = model(*[window(8, 64, 128), full(8, 64)] * 12)
GPT_OSS_120B = model(*[window(8, 64, 128), full(8, 64)] * 18)
GEMMA_2_9B = model(*[window(8, 256, 4096), full(8, 256)] * 21)
GEMMA_4_31B = model(*[*[window(16, 256, 1024)] * 5, full(4, 512)] * 10)
GEMMA_4_E2B = model(*[*[window(1, 256, 512)] * 4, full(1, 512)] * 3, *[None] * 20)
TINY_LLAMA = uniform(2, 2, 32)
"""The model of `e2e/tiny_model`."""
