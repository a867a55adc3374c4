"""What the engine learns from the model's folder, and the failures vLLM ends with when it is wrong.

Only `config.json` is read. Weights must be there, as vLLM looks for them, but nobody reads them.
"""

import json
import time
import uuid
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.stand_in_engine.version import VERSION

_WEIGHTS = ("*.safetensors", "*.bin", "*.pt")
_GENERATES = ("ForCausalLM", "ForConditionalGeneration")
_POOLS = ("Model", "ForSequenceClassification", "ForMaskedLM")


class StartError(Exception):
    """The engine cannot start; the text is what vLLM says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """The part of `config.json` that matters."""

    path: Path
    architecture: str
    longest_context: int
    """Tokens, from `max_position_embeddings`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What clients can ask for."""

    names: list[str]
    """Of the base model; the first one is in answers."""
    adapters: dict[str, str]
    """Path of each adapter by its name."""
    root: str
    max_model_len: int
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def all_names(self) -> list[str]:
        """Every name that a request can give as its model."""
        return [*self.names, *self.adapters]

    @property
    def fingerprint(self) -> str:
        """`system_fingerprint` of answers."""
        return f"vllm-{VERSION}-{zlib.crc32(self.root.encode()):08x}"

    def cards(self) -> list[dict[str, Any]]:
        """The entries of `/v1/models`."""
        base = [self._card(name, self.root, parent=None, length=self.max_model_len) for name in self.names]
        return base + [
            self._card(name, path, parent=self.names[0], length=None) for name, path in self.adapters.items()
        ]

    def _card(self, name: str, root: str, *, parent: str | None, length: int | None) -> dict[str, Any]:
        permission = {
            "id": f"modelperm-{uuid.uuid4().hex[:16]}",
            "object": "model_permission",
            "created": self.created,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        return {
            "id": name,
            "object": "model",
            "created": self.created,
            "owned_by": "vllm",
            "root": root,
            "parent": parent,
            "max_model_len": length,
            "permission": [permission],
        }


def read(model: str) -> ModelFolder:
    """Read the folder; raises `StartError`."""
    path = Path(model)
    try:
        config = json.loads((path / "config.json").read_bytes())
    except OSError as error:
        raise StartError(
            f"Invalid repository ID or local directory specified: '{model}'.\n"
            "Please verify the following requirements:\n"
            "1. Provide a valid Hugging Face repository ID.\n"
            "2. Specify a local directory that contains a recognized configuration file.\n"
            "   - For Hugging Face models: ensure the presence of a 'config.json'.\n"
            "   - For Mistral models: ensure the presence of a 'params.json'.\n"
        ) from error
    except ValueError as error:
        raise StartError(
            f"It looks like the config file at '{path / 'config.json'}' is not a valid JSON file."
        ) from error
    text = config.get("text_config", config)
    architectures = config.get("architectures") or []
    if not any(each.endswith(_GENERATES + _POOLS) for each in architectures):
        raise StartError(f"Model architectures {architectures} are not supported for now.")
    return ModelFolder(
        path=path,
        architecture=architectures[0],
        longest_context=int(text.get("max_position_embeddings", 2048)),
    )


def context_length(folder: ModelFolder, asked: int | None) -> int:
    """The context length to serve; raises `StartError` if more is asked than the model can."""
    if asked is None:
        return folder.longest_context
    if asked > folder.longest_context:
        raise StartError(
            f"User-specified max_model_len ({asked}) is greater than the derived max_model_len "
            f"(max_position_embeddings={float(folder.longest_context)} or model_max_length=None in model's "
            "config.json). To allow overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1."
        )
    return asked


def check_weights(folder: ModelFolder) -> None:
    """Raises `StartError` if there are no weights."""
    if not any(True for pattern in _WEIGHTS for _ in folder.path.glob(pattern)):
        raise StartError(f"Cannot find any model weights with `{folder.path}`")


def check_adapters(adapters: dict[str, str]) -> None:
    """Raises `StartError` for an adapter that is not there."""
    for name, path in adapters.items():
        if not (Path(path) / "adapter_config.json").is_file():
            raise StartError(f"Loading lora {name} failed: No adapter found for {path}")
