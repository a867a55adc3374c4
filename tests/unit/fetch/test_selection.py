import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.fetch.selection import needed

SMALL = ["config.json", "tokenizer.json", "LICENSE", "README.md"]


@pytest.mark.parametrize(
    ("extra", "kept"),
    [
        pytest.param(
            ["model.safetensors", "pytorch_model.bin", "pytorch_model.bin.index.json"],
            ["model.safetensors"],
            id="safetensors win over pickled files",
        ),
        pytest.param(
            [
                "model-00001-of-00002.safetensors",
                "model-00002-of-00002.safetensors",
                "model.safetensors.index.json",
            ],
            [
                "model-00001-of-00002.safetensors",
                "model-00002-of-00002.safetensors",
                "model.safetensors.index.json",
            ],
            id="every shard and the index stay",
        ),
        pytest.param(
            ["pytorch_model.bin"], ["pytorch_model.bin"], id="pickled files stay where there is nothing else"
        ),
        pytest.param(
            ["pytorch_model.bin", "q4.gguf"], ["pytorch_model.bin"], id="pickled files win over GGUF"
        ),
        pytest.param(["q4.gguf"], ["q4.gguf"], id="GGUF stays where there is nothing else"),
        pytest.param(["model.safetensors", "q4.gguf"], ["model.safetensors"], id="safetensors win over GGUF"),
        pytest.param(
            ["model.safetensors", "original/consolidated.00.pth", "original/params.json"],
            ["model.safetensors"],
            id="the author's original checkpoint is left out",
        ),
        pytest.param(
            ["model.safetensors", "consolidated.safetensors", "params.json"],
            ["model.safetensors", "params.json"],
            id="Mistral's second copy is left out",
        ),
        pytest.param(
            ["consolidated.safetensors", "params.json"],
            ["consolidated.safetensors", "params.json"],
            id="Mistral's own format stays where it is the only one",
        ),
        pytest.param(
            ["model.safetensors", "tf_model.h5", "flax_model.msgpack", "rust_model.ot", "onnx/model.onnx"],
            ["model.safetensors"],
            id="other frameworks are left out",
        ),
        pytest.param(
            ["model.safetensors", ".gitattributes", ".gitignore"],
            ["model.safetensors"],
            id="git's own files are left out",
        ),
        pytest.param(
            ["adapter_model.safetensors", "adapter_config.json", "adapter_model.bin"],
            ["adapter_model.safetensors", "adapter_config.json"],
            id="adapters follow the same rule",
        ),
        pytest.param(
            ["model.safetensors", "modeling_x.py", "chat_template.jinja", "1_Pooling/config.json"],
            ["model.safetensors", "modeling_x.py", "chat_template.jinja", "1_Pooling/config.json"],
            id="code, templates and folders of settings stay",
        ),
    ],
)
def test_keeps_what_a_server_needs(extra, kept):
    assert needed(SMALL + extra) == SMALL + kept


@given(
    st.lists(st.from_regex(r"[a-z]{1,5}\.(json|safetensors|bin|pth|gguf|txt)", fullmatch=True), unique=True)
)
def test_never_leaves_a_repository_with_weights_without_any(paths):
    weights = ("safetensors", "bin", "pth", "gguf")
    kept = needed(paths)
    assert set(kept) <= set(paths)
    assert any(path.endswith(weights) for path in paths) == any(path.endswith(weights) for path in kept)
    assert needed(kept) == kept
