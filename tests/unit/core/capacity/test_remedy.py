import pytest
from tests.unit.core.capacity.test_estimate import (
    DEEPSEEK_V3,
    LLAMA_8B,
    LLAMA_70B_FP8,
    QWEN3_8B,
    given_words,
)

from stoker.core.capacity.catalog import ACCELERATORS
from stoker.core.capacity.container import EngineContainer
from stoker.core.capacity.remedy import levers, smallest
from stoker.core.capacity.weights import weights_size


def pulled(model, accelerator, *words):
    return levers(**given_words(model, accelerator, *words))


@pytest.mark.parametrize(
    ("model", "accelerator", "words", "expected"),
    [
        pytest.param(
            QWEN3_8B,
            "nvidia-l4",
            (),
            ["model.kvCacheDtype fp8", "model.contextLength 22800", "accelerator.count 2"],
            id="a cache too small for the length",
        ),
        pytest.param(
            LLAMA_70B_FP8,
            "nvidia-h100-80gb",
            ("--max-model-len", "8192"),
            ["--max-num-seqs 256", "accelerator.count 2"],
            id="weights that leave nothing",
        ),
        pytest.param(
            LLAMA_8B,
            "nvidia-t4",
            ("--kv-cache-dtype", "fp8"),
            ["accelerator.count 4"],
            id="weights that are larger than the memory",
        ),
        pytest.param(
            LLAMA_8B,
            "nvidia-a100-40gb",
            ("--gpu-memory-utilization", "0.8", "--max-model-len", "125000"),
            [
                "--gpu-memory-utilization 0.81",
                "--max-num-seqs 128",
                "model.kvCacheDtype fp8",
                "model.contextLength 122256",
                "accelerator.count 2",
            ],
            id="a share of the memory that is a little too small",
        ),
        pytest.param(DEEPSEEK_V3, "nvidia-l4", (), [], id="weights that no such node holds"),
        pytest.param(LLAMA_70B_FP8, "cpu", (), [], id="a CPU has no more ranks"),
    ],
)
def test_the_smallest_change_of_each_kind_that_makes_it_fit(model, accelerator, words, expected):
    assert [f"{lever.field} {lever.value}" for lever in pulled(model, accelerator, *words)] == expected


def test_a_lever_shows_what_it_gives():
    assert all(lever.estimate.fits for lever in pulled(QWEN3_8B, "nvidia-l4"))


@pytest.mark.parametrize("percent", range(90, 101))
def test_no_share_is_advised_that_the_driver_does_not_leave_free(percent):
    words = ("--gpu-memory-utilization", f"{percent / 100}", "--max-model-len", "8192")
    found = pulled(LLAMA_70B_FP8, "nvidia-h100-80gb", *words)
    assert "--gpu-memory-utilization" not in [lever.field for lever in found]


@pytest.mark.parametrize(
    ("model", "accelerator", "count", "words", "expected"),
    [
        pytest.param(
            LLAMA_8B, "nvidia-l4", 1, (), "1 x nvidia-a100-40gb", id="of the same vendor, by memory"
        ),
        pytest.param(
            LLAMA_8B, "google-tpu-v5e", 1, (), "2 x google-tpu-v6e", id="more of them before another vendor"
        ),
        pytest.param(
            DEEPSEEK_V3,
            "nvidia-l4",
            1,
            (),
            "8 x nvidia-h200",
            id="more of them where no single one is enough",
        ),
        pytest.param(
            LLAMA_8B, "cpu", 1, (), "1 x nvidia-a100-40gb", id="of any vendor instead of a processor"
        ),
        pytest.param(
            LLAMA_8B,
            "nvidia-l4",
            2,
            ("-pp", "2"),
            "2 x nvidia-a10g",
            id="the count is shared out over pipeline ranks",
        ),
        pytest.param(
            LLAMA_70B_FP8,
            "nvidia-h100-80gb",
            3,
            ("-pp", "3"),
            "3 x nvidia-l40s",
            id="a count that is no power of two",
        ),
        pytest.param(
            LLAMA_8B,
            "nvidia-l4",
            3,
            ("-pp", "3", "--max-model-len", "999999999"),
            None,
            id="nothing holds it",
        ),
    ],
)
def test_the_smallest_of_the_catalogue_that_holds_it(model, accelerator, count, words, expected):
    found = smallest(
        model,
        weights_size(model, stored=None),
        container=EngineContainer(args=words, environment={}),
        instead_of=ACCELERATORS[accelerator],
        count=count,
    )
    assert found == expected
