"""Folders of models as people publish them, small."""

import json
import struct

CONFIG = {"architectures": ["Qwen2ForCausalLM"], "hidden_size": 8, "model_type": "qwen2"}


def safetensors(tensors: dict[str, tuple[str, tuple[int, ...], int]], *, padding: int = 0) -> bytes:
    """A file with these tensors: type, shape and bytes of each; `padding` makes its header longer."""
    header: dict = {"__metadata__": {"format": "pt", "padding": " " * padding}}
    end = 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)


EMBEDDING = {"model.embed_tokens.weight": ("BF16", (16, 8), 256)}
HEAD = {"lm_head.weight": ("F8_E4M3", (16, 8), 128)}
ONE_FILE = {"config.json": json.dumps(CONFIG).encode(), "model.safetensors": safetensors(EMBEDDING)}
TWO_SHARDS = {
    "config.json": json.dumps(CONFIG).encode(),
    "model-00001-of-00002.safetensors": safetensors(EMBEDDING),
    "model-00002-of-00002.safetensors": safetensors(HEAD),
}


def index(*, names: dict[str, str], total_size: object = 384) -> bytes:
    """A model.safetensors.index.json."""
    return json.dumps({"metadata": {"total_size": total_size}, "weight_map": names}).encode()
