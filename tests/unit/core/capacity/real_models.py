"""The real configs beside this file, read."""

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

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


KEYS = st.sampled_from(
    sorted(
        {
            key
            for name in NAMES
            for part in (config(name), config(name).get("text_config", {}))
            for key in part
        }
    )
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def broken_configs(draw: st.DrawFn) -> dict[str, Any]:
    """A real config with some values changed to numbers that may fit there, or to anything at all."""
    broken = config(draw(st.sampled_from(NAMES)))
    for key in draw(st.lists(KEYS, min_size=1, max_size=4)):
        value = draw(st.integers(0, 300) | JSON)
        broken[key] = value
        if isinstance(broken.get("text_config"), dict):
            broken["text_config"] = broken["text_config"] | {key: value}
    return broken
