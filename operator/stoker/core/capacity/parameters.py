"""How many parameters has a model, and where are they?

Counted from the sizes in its config, component by component, because each is stored, split over
accelerators and read in its own way: embeddings stay in 16 bits when the rest is quantized, all experts
are in memory but a token passes a few. Biases and the small vectors of quantizers are left out: in the
models of the tests all counts are within 1 % of the published ones.

Example: Llama-3.1-8B. Vocabulary 2 x 128,256 x 4,096 = 1.05 B; attention 32 x 4,096 x (2 x 4,096 +
2 x 1,024) = 1.34 B; MLP 32 x 3 x 4,096 x 14,336 = 5.64 B; together 8.03 B.
"""

from dataclasses import dataclass

from stoker.core.capacity.architecture import LatentAttention, LayerKind, LinearState, ModelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of a model by component."""

    embedding: int
    output_head: int
    """0 if it is the embedding."""
    attention: int
    """Of all layers, but for what `latent_down` counts."""
    latent_down: int
    """Projections to compressed vectors (MLA), which every tensor-parallel rank holds whole."""
    linear: int
    """Layers with linear attention or Mamba."""
    dense_mlp: int
    routed_experts: int
    shared_experts: int
    router: int
    norms: int
    other: int
    """Learned positions; embeddings for each layer."""
    encoder: int
    """Of pictures, roughly."""

    @property
    def total(self) -> int:
        """All of them."""
        return (
            self.embedding
            + self.output_head
            + self.attention
            + self.latent_down
            + self.linear
            + self.dense_mlp
            + self.routed_experts
            + self.shared_experts
            + self.router
            + self.norms
            + self.other
            + self.encoder
        )


def parameters(model: ModelConfig) -> Parameters:
    """The parameters of a model by component."""
    hidden, experts, matrices = model.hidden_size, model.experts, model.mlp_matrices
    kinds = [kind for kind in (*model.layers, *model.borrowing) if kind is not None]
    is_encoder = not kinds and model.attention_heads > 0
    states = [kind for kind in kinds if isinstance(kind, LinearState)]
    attention = [kind for kind in kinds if not isinstance(kind, LinearState)]
    expert_layers = experts.layers if experts else 0
    expert = matrices * hidden * experts.intermediate_size if experts else 0
    return Parameters(
        embedding=model.vocab_size * hidden,
        output_head=0 if model.tied_embeddings or is_encoder else model.vocab_size * hidden,
        attention=len(model.layers) * 4 * hidden**2
        if is_encoder
        else sum(_attention(model, kind) for kind in attention),
        latent_down=sum(_latent_down(model, kind) for kind in attention if isinstance(kind, LatentAttention)),
        linear=sum(_linear(hidden, state) for state in states),
        dense_mlp=model.dense_layers * matrices * hidden * model.intermediate_size,
        routed_experts=expert_layers * expert * (experts.count if experts else 0),
        shared_experts=expert_layers
        * matrices
        * hidden
        * (experts.shared_intermediate_size if experts else 0),
        router=expert_layers * hidden * (experts.count if experts else 0),
        norms=hidden * (len(kinds) + model.dense_layers + expert_layers + 1),
        other=model.other_parameters,
        encoder=model.encoder_parameters,
    )


def active_parameters(model: ModelConfig) -> int:
    """Parameters that one token of the language model is multiplied with.

    The input embedding is looked up, not multiplied, unless it is the output head too; the encoder works
    once for each picture; of the routed experts a token passes a few.

    Example: Qwen3-30B-A3B passes 8 of 128 experts -> 3.0 B of 30.5 B.
    """
    count = parameters(model)
    looked_up = count.other + count.encoder + (0 if model.tied_embeddings else count.embedding)
    idle = 0
    if model.experts is not None:
        idle = count.routed_experts * (model.experts.count - model.experts.per_token) // model.experts.count
    return count.total - looked_up - idle


def _attention(model: ModelConfig, kind: LayerKind) -> int:
    hidden, heads, latent = model.hidden_size, model.attention_heads, model.latent
    if isinstance(kind, LatentAttention):
        assert latent is not None, "read_model_config sets it with the first such layer"
        query = heads * (latent.nope_dim + kind.rope_dim) * (latent.query_rank or hidden)
        up = kind.rank * heads * (latent.nope_dim + latent.value_dim)
        return query + up + heads * latent.value_dim * hidden
    assert not isinstance(kind, LinearState), "counted by _linear"
    query = heads * kind.key_dim * (2 if model.query_gate else 1)
    return hidden * (query + kind.kv_heads * (kind.key_dim + kind.value_dim) + heads * kind.value_dim)


def _latent_down(model: ModelConfig, kind: LatentAttention) -> int:
    """Projections to the compressed vectors, and the sparse indexer, which is not split either."""
    latent = model.latent
    assert latent is not None, "read_model_config sets it with the first such layer"
    down = model.hidden_size * (latent.query_rank + kind.rank + kind.rope_dim)
    indexer = latent.indexer_heads * (latent.query_rank * kind.indexer_dim + model.hidden_size)
    return down + (indexer + model.hidden_size * kind.indexer_dim if kind.indexer_dim else 0)


def _linear(hidden: int, state: LinearState) -> int:
    """Projections in and out, gate and convolution of a layer with a state."""
    keys, inner = state.key_heads * state.key_dim, state.value_heads * state.value_dim
    convolution = state.conv_kernel * (2 * keys + inner)
    if state.key_dim == 0:  # a short convolution: two gates, its input, its output
        return 4 * hidden * inner + convolution
    if state.conv_kernel == 1:  # lightning attention: query, key, value, gate, output
        return 5 * hidden * inner
    if state.key_heads == 0:  # Mamba 1: steps of rank hidden / 16, and the state matrix
        return inner * (3 * hidden + 2 * (hidden // 16) + 3 * state.key_dim) + convolution
    return hidden * (2 * keys + 3 * inner + 2 * state.value_heads) + convolution
