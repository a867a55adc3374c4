"""The folder's logic, driven by a folder in memory."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.fetch.model_folders import CONFIG, EMBEDDING, HEAD, ONE_FILE, TWO_SHARDS, index, safetensors

from stoker.api.reasons import TerminationClass
from stoker.core.capacity.weights import StoredWeights
from stoker.fetch import model_folder
from stoker.fetch.errors import FetchError
from stoker.fetch.model_folder import (
    MOST_HEADERS,
    MOST_INDEX_BYTES,
    MOST_JSON_BYTES,
    FolderModel,
    answer,
    read_folder,
)

CONFIG_JSON = json.dumps(CONFIG).encode()
BOTH = StoredWeights(
    total_bytes=384,
    tensors={"model.embed_tokens.weight": ("BF16", (16, 8)), "lm_head.weight": ("F8_E4M3", (16, 8))},
)


def read(files, *, sizes=None, absent=(), weights_needed=True):
    """Config, stored weights, and what was asked for; `absent` files can't be had."""
    known = {path: len(content) for path, content in files.items()} | (sizes or {})
    reading = read_folder(known, name="hf://acme/chat", weights_needed=weights_needed)
    asked, step = [], next(reading)
    while not isinstance(step, FolderModel):
        asked += step
        failed = any(start.path in absent for start in step)
        assert not (failed and any(start.vital for start in step))
        answers = tuple(None if failed else files[start.path][: start.length] for start in step)
        step = answer(reading, answers)
    return step.config, step.stored, asked


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(TWO_SHARDS, BOTH, id="two shards"),
        pytest.param(
            {"config.json": CONFIG_JSON, "model.safetensors": safetensors(EMBEDDING | HEAD)},
            BOTH,
            id="one file",
        ),
        pytest.param(
            {"config.json": CONFIG_JSON, "model.safetensors": safetensors(EMBEDDING | HEAD, padding=300_000)},
            BOTH,
            id="a header that is longer than what is asked for at first",
        ),
        pytest.param(
            TWO_SHARDS
            | {
                "consolidated.00.safetensors": safetensors(HEAD),
                "original/model.safetensors": safetensors(HEAD),
                "metal/model.bin": b"x" * 100,
                "text_encoder/model.safetensors": safetensors(HEAD),
                "pytorch_model.bin": b"x" * 100,
                "chat.gguf": b"GGUF",
            },
            BOTH,
            id="the same weights in other forms do not count",
        ),
        pytest.param(
            TWO_SHARDS
            | {
                "model.safetensors": safetensors({"copy": ("F32", (1,), 4)}),
                "model.safetensors.index.json": index(
                    names={
                        "model.embed_tokens.weight": "model-00001-of-00002.safetensors",
                        "lm_head.weight": "model-00002-of-00002.safetensors",
                    }
                ),
            },
            BOTH,
            id="of two sets the one in the index counts",
        ),
        pytest.param(
            {
                "config.json": CONFIG_JSON,
                "pytorch_model-00001-of-00002.bin": b"x" * 100,
                "pytorch_model-00002-of-00002.bin": b"x" * 50,
                "training_args.bin": b"x" * 10,
                "optimizer.pt": b"x" * 1000,
            },
            StoredWeights(total_bytes=150, tensors=None),
            id="pickled weights are known by their sizes",
        ),
    ],
)
def test_counts_the_weights_that_a_server_loads(files, expected):
    config, stored, _ = read(files)
    assert config == CONFIG
    assert stored == expected


def test_reads_no_index_where_the_names_say_that_it_is_one_set():
    _, _, asked = read(TWO_SHARDS | {"model.safetensors.index.json": b"not even JSON"})
    assert [start.path for start in asked] == sorted(TWO_SHARDS)


SIZES_UNKNOWN = dict.fromkeys(TWO_SHARDS)
INDEX = index(names={"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"})


@pytest.mark.parametrize(
    ("index_json", "stored"),
    [
        pytest.param(INDEX, StoredWeights(total_bytes=384, tensors=None), id="the index states a total"),
        pytest.param(index(names={}, total_size="?"), None, id="the index states nothing of use"),
        pytest.param(b"[" * (MOST_INDEX_BYTES + 1), None, id="the index is too large"),
    ],
)
def test_takes_the_total_of_the_index_where_neither_sizes_nor_headers_can_be_had(index_json, stored):
    files = TWO_SHARDS | {"model.safetensors.index.json": index_json}
    shards = [path for path in TWO_SHARDS if path.endswith(".safetensors")]
    sizes = SIZES_UNKNOWN | {"model.safetensors.index.json": None}
    assert read(files, sizes=sizes, absent=shards)[1] == stored


def test_takes_the_sizes_of_the_files_where_headers_can_not_be_had():
    total = sum(len(content) for path, content in TWO_SHARDS.items() if path != "config.json")
    _, stored, _ = read(TWO_SHARDS, absent=["model-00002-of-00002.safetensors"])
    assert stored == StoredWeights(total_bytes=total, tensors=None)


def test_an_index_too_large_to_read_is_not_asked_for():
    files = TWO_SHARDS | {"extra.safetensors": safetensors({"x": ("F32", (1,), 4)})}
    files["model.safetensors.index.json"] = b""
    _, stored, asked = read(files, sizes={"model.safetensors.index.json": MOST_INDEX_BYTES + 1})
    assert stored.total_bytes == 388
    assert "model.safetensors.index.json" not in [start.path for start in asked]


def test_asks_for_no_more_headers_than_the_limit():
    many = MOST_HEADERS + 1
    shards = {f"model-{n:05}-of-{many:05}.safetensors": safetensors(HEAD) for n in range(many)}
    _, stored, asked = read({"config.json": CONFIG_JSON, **shards})
    assert stored == StoredWeights(total_bytes=sum(map(len, shards.values())), tensors=None)
    assert [start.path for start in asked] == ["config.json"]


def test_asks_for_no_more_bytes_of_headers_than_the_limit(monkeypatch):
    monkeypatch.setattr(model_folder, "MOST_HEADER_BYTES", 500_000)
    files = {"config.json": CONFIG_JSON, "model.safetensors": safetensors(HEAD, padding=500_000)}
    _, stored, _ = read(files)
    assert stored == StoredWeights(total_bytes=len(files["model.safetensors"]), tensors=None)


def test_an_index_that_names_a_file_that_is_not_there_is_said():
    files = TWO_SHARDS | {"model.safetensors": safetensors(HEAD)}
    files["model.safetensors.index.json"] = index(names={"a": "model-00003-of-00002.safetensors"})
    with pytest.raises(FetchError, match=r"names `model-00003-of-00002\.safetensors`, which is not there"):
        read(files)


@pytest.mark.parametrize(
    ("files", "config", "quantization"),
    [
        pytest.param(
            {"hf_quant_config.json": b'{"quantization": {"quant_algo": "NVFP4"}}'},
            CONFIG,
            {"quantization": {"quant_algo": "NVFP4"}},
            id="of ModelOpt, as it stands",
        ),
        pytest.param(
            {"quantize_config.json": b'{"bits": 4, "group_size": 128}'},
            CONFIG,
            {"bits": 4, "group_size": 128, "quant_method": "gptq"},
            id="of GPTQ",
        ),
        pytest.param(
            {"quant_config.json": b'{"w_bit": 4, "quant_method": "awq"}'},
            CONFIG,
            {"w_bit": 4, "quant_method": "awq"},
            id="of AWQ",
        ),
        pytest.param(
            {"hf_quant_config.json": b"not read"},
            CONFIG | {"quantization_config": {"quant_method": "fp8"}},
            {"quant_method": "fp8"},
            id="but what config.json says comes first",
        ),
        pytest.param(
            {"hf_quant_config.json": b"not read"},
            CONFIG | {"text_config": {"quantization_config": {"quant_method": "fp8"}}},
            None,
            id="also for the text part",
        ),
    ],
)
def test_takes_quantization_from_a_file_of_its_own(files, config, quantization):
    found, _, _ = read(ONE_FILE | {"config.json": json.dumps(config).encode(), **files})
    assert found.get("quantization_config") == quantization


def test_a_config_of_100_mb_is_not_read():
    with pytest.raises(FetchError, match=r"config\.json is larger than 4 MiB") as refused:
        read(ONE_FILE, sizes={"config.json": 100_000_000})
    assert refused.value.reason is TerminationClass.MODEL_UNSUPPORTED


def test_no_more_is_read_of_a_config_whose_size_is_not_known():
    huge = ONE_FILE | {"config.json": b" " * 100_000_000}
    with pytest.raises(FetchError, match=r"config\.json is larger than 4 MiB"):
        read(huge, sizes={"config.json": None})
    reading = read_folder({"config.json": None}, name="x", weights_needed=False)
    assert [start.length for start in next(reading)] == [MOST_JSON_BYTES + 1]


GGUF = "GGUF, the format of llama.cpp"


@pytest.mark.parametrize(
    ("files", "reason", "words"),
    [
        pytest.param(
            {"chat-Q4_K_M.gguf": b"GGUF", "README.md": b""},
            TerminationClass.MODEL_UNSUPPORTED,
            GGUF,
            id="a GGUF repository",
        ),
        pytest.param(
            {"config.json": CONFIG_JSON, "chat-Q4_K_M.gguf": b"GGUF"},
            TerminationClass.MODEL_UNSUPPORTED,
            GGUF,
            id="a GGUF repository with a config",
        ),
        pytest.param(
            {"model_index.json": b"{}", "unet/config.json": b"{}", "vae/diffusion.safetensors": b""},
            TerminationClass.MODEL_UNSUPPORTED,
            "is a diffusion pipeline",
            id="a diffusion pipeline",
        ),
        pytest.param(
            {"config.json": b'{"_class_name": "AutoencoderKL", "_diffusers_version": "0.30"}'},
            TerminationClass.MODEL_UNSUPPORTED,
            "its config.json describes a AutoencoderKL",
            id="a part of a diffusion pipeline",
        ),
        pytest.param(
            {"adapter_config.json": b'{"base_model_name_or_path": "Qwen/Qwen2.5-7B"}'},
            TerminationClass.MODEL_UNSUPPORTED,
            "is an adapter for `Qwen/Qwen2.5-7B`",
            id="an adapter",
        ),
        pytest.param(
            {"adapter_config.json": b"{}", "adapter_model.safetensors": safetensors(HEAD)},
            TerminationClass.MODEL_UNSUPPORTED,
            "does not name its base model",
            id="an adapter without base",
        ),
        pytest.param(
            {"tokenizer.json": b"{}"},
            TerminationClass.MODEL_UNSUPPORTED,
            "holds a tokenizer and no model",
            id="a tokenizer",
        ),
        pytest.param(
            {"config.json": CONFIG_JSON, "tokenizer.json": b"{}"},
            TerminationClass.WEIGHTS_MISSING,
            r"holds config.json and a tokenizer, and no weights",
            id="a tokenizer with a config",
        ),
        pytest.param(
            {"params.json": b"{}", "consolidated.safetensors": safetensors(HEAD)},
            TerminationClass.MODEL_UNSUPPORTED,
            "Mistral's own format",
            id="a model in Mistral's format only",
        ),
        pytest.param(
            {"chat/config.json": CONFIG_JSON},
            TerminationClass.WEIGHTS_MISSING,
            "but one in `chat`",
            id="the folder above a model",
        ),
        pytest.param(
            {"README.md": b""}, TerminationClass.WEIGHTS_MISSING, "has no config.json", id="something else"
        ),
        pytest.param(
            ONE_FILE | {"model.safetensors": b"<html>captive portal</html>"},
            TerminationClass.WEIGHTS_CORRUPT,
            "model.safetensors is not a safetensors file",
            id="weights that are none",
        ),
    ],
)
def test_says_what_it_is_if_it_is_no_model(files, reason, words):
    with pytest.raises(FetchError, match=words) as refused:
        read(files)
    assert refused.value.reason is reason
    assert refused.value.message.startswith("hf://acme/chat")
    assert refused.value.fix
    assert "\n" not in refused.value.message


def test_a_config_alone_is_enough_where_no_weights_are_needed():
    assert read({"config.json": CONFIG_JSON}, weights_needed=False)[:2] == (CONFIG, None)


PATHS = st.sampled_from(
    (
        "config.json",
        "adapter_config.json",
        "model.safetensors",
        "model-00001-of-00002.safetensors",
        "consolidated.safetensors",
        "model.safetensors.index.json",
        "hf_quant_config.json",
        "pytorch_model.bin",
        "x.gguf",
    )
)


CONTENTS = st.binary(max_size=40) | st.sampled_from((CONFIG_JSON, safetensors(HEAD), INDEX, b"[]"))


@given(files=st.dictionaries(PATHS, CONTENTS))
def test_whatever_files_hold_the_answer_is_a_model_or_a_sentence(files):
    with contextlib.suppress(FetchError):
        config, _, _ = read(files)
        assert json.loads(files["config.json"]).items() <= config.items()
