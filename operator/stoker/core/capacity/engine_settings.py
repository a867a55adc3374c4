"""What does the engine do with its memory? The arguments of vLLM that capacity depends on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Arguments of one engine, with vLLM's defaults filled in."""

    max_num_seqs: int
    """Requests that run at once, at most."""
    max_num_batched_tokens: int
    """Tokens of one step, at most."""
    gpu_memory_utilization: float = 0.92
    """Share of the visible memory that the engine may use; vLLM 0.32's default."""
    max_model_len: int | None = None
    """Most tokens of one request; None as the model was made for."""
    kv_cache_dtype: str = "auto"
    """`auto` is the model's own type; `fp8`, `fp8_e4m3`, `fp8_e5m2`, `fp8_ds_mla`, `nvfp4` ..."""
    block_size: int = 16
    """Tokens of one block of the KV cache."""
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    """Engines of one instance, each with the whole model and a KV cache of its own."""
    decode_context_parallel: int = 1
    expert_parallel: bool = False
    kv_cache_memory_bytes: int | None = None
    """KV cache per rank as the user sets it, instead of what is left; None lets vLLM compute it."""
    speculative_layers: int = 0
    """Attention layers of a drafter (EAGLE, MTP), which keep keys and values too."""
    speculative_tokens: int = 0
    """Tokens that a drafter proposes at a time."""
    concurrent_batches: int = 2
    """Steps that may be under way at once: one for each pipeline rank, and one more with asynchronous
    scheduling, which is the default on GPUs."""
    hybrid_kv_cache: bool = True
    """Whether layers with a window or a chunk keep only that."""
    prefix_caching: bool = True
    cuda_graphs: bool = True

    @property
    def ranks(self) -> int:
        """Accelerators that one instance uses."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel
