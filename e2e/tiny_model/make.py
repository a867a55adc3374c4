"""Makes a tiny Llama that a real engine loads: `python -m e2e.tiny_model.make FOLDER`.

The layers are random, so what it says is word salad; what matters is that the whole path is real:
safetensors, tokenizer, chat template, attention with two key-value heads. The same seed gives the same
bytes on every machine, hence the same digest, so a test can name the digest in advance.

Two things are not random. Every embedding holds a constant in its first place which no layer changes,
and the output row of every token that is not plain text is strongly negative there. So answers are
readable text, each token gives a character at once, and an answer ends at `max_tokens`, not by chance.

Rejected: torch and transformers, which would put gigabytes on the machine that only makes this folder;
safetensors is a header of JSON and the numbers, so the standard library is enough.
"""

import argparse
import array
import hashlib
import json
import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2e.tiny_model import tokenizer

VOCABULARY = 512
HIDDEN = 128
INTERMEDIATE = 256
LAYERS = 2
HEADS = 4
KEY_VALUE_HEADS = 2
CONTEXT_LENGTH = 4096
HEAD_WIDTH = HIDDEN // HEADS
SPREAD = 0.5
"""Weights are uniform in +-SPREAD, embeddings in +-1: enough for the layers to change the answer."""
UNREADABLE = -100.0

SUMS_FILE = "SHA256SUMS"

Rows = list[list[float]]


def config() -> dict[str, Any]:
    """Content of `config.json`."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "head_dim": HEAD_WIDTH,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT_LENGTH,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": tokenizer.SPECIAL_TOKENS.index(tokenizer.BEGIN),
        "eos_token_id": tokenizer.SPECIAL_TOKENS.index(tokenizer.END),
        "torch_dtype": "bfloat16",
    }


def weights(vocabulary: dict[str, int], *, seed: int) -> dict[str, Rows | list[float]]:
    """Every tensor by its name in the checkpoint of a `LlamaForCausalLM`."""
    # Only `random()` is promised to give the same numbers in every version of Python.
    uniform = random.Random(seed).random

    def matrix(rows: int, columns: int, *, spread: float = SPREAD) -> Rows:
        scale = spread / columns**0.5
        return [[(2 * uniform() - 1) * scale for _ in range(columns)] for _ in range(rows)]

    key_value = KEY_VALUE_HEADS * HEAD_WIDTH
    ones = [1.0] * HIDDEN
    embedding = matrix(VOCABULARY, HIDDEN, spread=HIDDEN**0.5)
    _set_first_column(embedding, lambda _: 1.0)
    tensors: dict[str, Rows | list[float]] = {"model.embed_tokens.weight": embedding}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        output = matrix(HIDDEN, HIDDEN, spread=4 * SPREAD)
        down = matrix(HIDDEN, INTERMEDIATE, spread=4 * SPREAD)
        output[0] = [0.0] * HIDDEN
        down[0] = [0.0] * INTERMEDIATE
        tensors |= {
            f"{prefix}.input_layernorm.weight": ones,
            f"{prefix}.self_attn.q_proj.weight": matrix(HIDDEN, HIDDEN),
            f"{prefix}.self_attn.k_proj.weight": matrix(key_value, HIDDEN),
            f"{prefix}.self_attn.v_proj.weight": matrix(key_value, HIDDEN),
            f"{prefix}.self_attn.o_proj.weight": output,
            f"{prefix}.post_attention_layernorm.weight": ones,
            f"{prefix}.mlp.gate_proj.weight": matrix(INTERMEDIATE, HIDDEN),
            f"{prefix}.mlp.up_proj.weight": matrix(INTERMEDIATE, HIDDEN),
            f"{prefix}.mlp.down_proj.weight": down,
        }
    head = matrix(VOCABULARY, HIDDEN, spread=HIDDEN**0.5)
    readable = _readable_tokens(vocabulary)
    _set_first_column(head, lambda token: 0.0 if token in readable else UNREADABLE)
    return tensors | {"model.norm.weight": ones, "lm_head.weight": head}


def _set_first_column(rows: Rows, value: Callable[[int], float]) -> None:
    for number, row in enumerate(rows):
        row[0] = value(number)


def _readable_tokens(vocabulary: dict[str, int]) -> set[int]:
    alphabet = tokenizer.byte_alphabet()
    readable = {alphabet[byte] for byte in tokenizer.readable_bytes()}
    return {
        number
        for token, number in vocabulary.items()
        if token not in tokenizer.SPECIAL_TOKENS and set(token) <= readable
    }


def safetensors(tensors: dict[str, Rows | list[float]]) -> bytes:
    """The tensors in bfloat16 as one safetensors file: length of the header, header, numbers."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = bytearray()
    for name, tensor in tensors.items():
        rows = [row for row in tensor if isinstance(row, list)]
        shape = [len(rows), len(rows[0])] if rows else [len(tensor)]
        numbers = [n for row in rows for n in row] if rows else tensor
        start = len(body)
        body += _bfloat16(array.array("f", numbers))  # type: ignore[arg-type]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, len(body)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(body)


def _bfloat16(numbers: "array.array[float]") -> bytes:
    """The upper half of each float32, little end first."""
    if sys.byteorder == "big":
        numbers.byteswap()
    whole = numbers.tobytes()
    halves = bytearray(len(whole) // 2)
    halves[0::2], halves[1::2] = whole[2::4], whole[3::4]
    return bytes(halves)


def make(folder: Path, *, seed: int = 0) -> str:
    """Writes the model with its `SHA256SUMS` into `folder` and returns its digest.

    The digest is the SHA-256 of `SHA256SUMS`, and that file lists every other one, sorted by path.
    """
    merges = tokenizer.train(VOCABULARY - 256 - len(tokenizer.SPECIAL_TOKENS))
    documents = {
        "config.json": config(),
        "generation_config.json": {"bos_token_id": 0, "eos_token_id": 1},
        "tokenizer.json": tokenizer.tokenizer_json(merges),
        "tokenizer_config.json": tokenizer.tokenizer_config(),
    }
    files = {name: json.dumps(document, indent=1).encode() for name, document in documents.items()}
    files["model.safetensors"] = safetensors(weights(tokenizer.vocabulary(merges), seed=seed))

    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    sums = "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files))
    (folder / SUMS_FILE).write_text(sums)
    return f"sha256:{hashlib.sha256(sums.encode()).hexdigest()}"


def main() -> None:
    """Makes the model from the command line and prints its digest."""
    parser = argparse.ArgumentParser(prog="python -m e2e.tiny_model.make", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="another seed makes another model version")
    arguments = parser.parse_args()
    print(make(arguments.folder, seed=arguments.seed))


if __name__ == "__main__":
    main()
