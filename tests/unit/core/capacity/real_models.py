"""The real configs beside this file, read."""

import json
from pathlib import Path
from typing import Any

from stoker.core.capacity.architecture import ModelConfig
from stoker.core.capacity.model_config import read_model_config

CONFIGS = Path(__file__).parent / "configs"
NAMES = sorted(path.stem for path in CONFIGS.glob("*.json"))


def config(name: str) -> dict[str, Any]:
    return json.loads((CONFIGS / f"{name}.json").read_text())


def model(name: str) -> ModelConfig:
    read = read_model_config(config(name))
    assert isinstance(read, ModelConfig), read
    return read
