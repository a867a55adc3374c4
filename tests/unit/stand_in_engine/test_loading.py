import pytest
from e2e.stand_in_engine import arguments
from e2e.stand_in_engine.faults import Faults
from e2e.stand_in_engine.loading import load
from e2e.stand_in_engine.model_folder import StartError
from e2e.stand_in_engine.profiles import PROFILES
from tests.unit.stand_in_engine.harness import model_folder


def loaded(folder, *words):
    return load(arguments.parse(["--model", str(folder), *words]), profile=PROFILES["fast"], faults=Faults())


def test_limits_are_those_of_the_profile(model):
    limits = loaded(model).scheduler.limits
    assert (limits.max_num_seqs, limits.max_num_batched_tokens, limits.blocks) == (256, 2048, 4096)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["--max-num-seqs", "8"], (8, 2048, 4096), id="a smaller batch"),
        pytest.param(["--performance-mode", "throughput"], (512, 4096, 4096), id="throughput doubles both"),
        pytest.param(
            ["--kv-cache-dtype", "fp8"], (256, 2048, 8192), id="an 8-bit KV cache has twice the blocks"
        ),
        pytest.param(["--num-gpu-blocks-override", "50"], (256, 2048, 50), id="blocks as told"),
    ],
)
def test_arguments_change_the_limits(model, words, expected):
    limits = loaded(model, *words).scheduler.limits
    assert (limits.max_num_seqs, limits.max_num_batched_tokens, limits.blocks) == expected


def test_requests_take_whole_blocks(model):
    cache = loaded(model, "--max-model-len", "500").cache_config
    assert cache["kv_cache_max_concurrency"] == 4096 / 32
    assert cache["kv_cache_size_tokens"] == 4096 // 32 * 500


def test_the_context_length_may_stand_in_the_part_about_text(tmp_path):
    folder = model_folder(
        tmp_path,
        architectures=["Gemma3ForConditionalGeneration"],
        text_config={"max_position_embeddings": 64},
    )
    assert loaded(folder).served.max_model_len == 64


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["--max-model-len", "5000"],
            r"User-specified max_model_len \(5000\) is greater than the derived max_model_len "
            r"\(max_position_embeddings=512.0",
            id="longer context than the model has",
        ),
        pytest.param(
            ["--num-gpu-blocks-override", "20"],
            r"To serve at least one request with the model's max seq len \(512\).* is 304\.",
            id="less KV cache than one request needs",
        ),
        pytest.param(
            ["--gpu-memory-utilization", "0.1"], "No available memory for the cache blocks", id="does not fit"
        ),
        pytest.param(
            ["--enable-lora", "--lora-modules", "poet=/nowhere"],
            "Loading lora poet failed: No adapter found for /nowhere",
            id="adapter that is not there",
        ),
    ],
)
def test_what_cannot_work_fails_with_vllms_words(model, words, message):
    with pytest.raises(StartError, match=message):
        loaded(model, *words)


@pytest.mark.parametrize(
    ("config", "weights", "message"),
    [
        pytest.param(None, False, "Invalid repository ID or local directory specified", id="no config.json"),
        pytest.param("{", False, "is not a valid JSON file", id="config.json is no JSON"),
        pytest.param({}, False, "Cannot find any model weights with", id="no weights"),
        pytest.param(
            {"architectures": ["Unheard"]},
            True,
            r"Model architectures \['Unheard'\] are not supported for now",
            id="unknown architecture",
        ),
    ],
)
def test_a_wrong_model_folder_fails_with_vllms_words(tmp_path, config, weights, message):
    if isinstance(config, dict):
        model_folder(tmp_path, weights=weights, **config)
    elif config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(StartError, match=message):
        loaded(tmp_path)
