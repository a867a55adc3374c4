from dataclasses import replace

import pytest
from tests.unit.core.capacity.models import settings

from stoker.api.spec import InferenceServiceSpec
from stoker.core.capacity.catalog import ACCELERATORS
from stoker.core.capacity.engine_settings import EngineSettings, engine_settings
from stoker.core.engine_args import engine_args
from stoker.core.model import Refusal

H100 = ACCELERATORS["nvidia-h100-80gb"]
CPU = ACCELERATORS["cpu"]


def read(*words, accelerator=H100, **more):
    read = engine_settings(words, accelerator=accelerator, **more)
    assert isinstance(read, EngineSettings)
    return read


def refusal(*words, accelerator=H100, **more):
    refusal = engine_settings(words, accelerator=accelerator, **more)
    assert isinstance(refusal, Refusal)
    return refusal.message


def test_an_instance_uses_every_rank_of_every_engine():
    assert settings(tensor_parallel=4, pipeline_parallel=2, data_parallel=3).ranks == 24


def test_without_arguments_all_is_as_vllm_has_it():
    assert read() == EngineSettings(max_num_seqs=1024, max_num_batched_tokens=8192)


@pytest.mark.parametrize(
    ("name", "sequences", "tokens"),
    [
        pytest.param("nvidia-h100-80gb", 1024, 8192, id="from 70 GiB on"),
        pytest.param("nvidia-l40s", 256, 2048, id="below"),
        pytest.param("nvidia-a100-80gb", 256, 2048, id="an A100 counts as small"),
        pytest.param("nvidia-b200", 1024, 16_384, id="from 160 GiB on"),
        pytest.param("google-tpu-v6e", 256, 1024, id="a TPU has its own"),
        pytest.param("cpu", 128, 2048, id="a CPU has its own"),
    ],
)
def test_the_batch_depends_on_the_accelerator(name, sequences, tokens):
    engine = read(accelerator=ACCELERATORS[name])
    assert (engine.max_num_seqs, engine.max_num_batched_tokens) == (sequences, tokens)


@pytest.mark.parametrize(
    ("words", "sequences", "tokens"),
    [
        pytest.param(["--performance-mode", "throughput"], 2048, 16_384, id="throughput doubles it"),
        pytest.param(["--performance-mode", "interactivity"], 1024, 8192, id="interactivity leaves it"),
        pytest.param(
            ["--performance-mode", "throughput", "--max-num-seqs", "64"],
            64,
            16_384,
            id="but not what is given",
        ),
        pytest.param(
            ["--max-num-seqs", "4", "--max-model-len", "512"], 4, 2048, id="no more than all requests"
        ),
        pytest.param(
            ["--max-num-batched-tokens", "512"], 512, 512, id="no more requests than tokens of a step"
        ),
    ],
)
def test_the_batch_depends_on_other_arguments(words, sequences, tokens):
    engine = read(*words)
    assert (engine.max_num_seqs, engine.max_num_batched_tokens) == (sequences, tokens)


def test_a_cpu_has_longer_blocks_and_neither_graphs_nor_steps_that_overlap():
    engine = read(accelerator=CPU)
    assert (engine.block_size, engine.cuda_graphs, engine.concurrent_batches) == (128, False, 1)


def test_more_ranks_of_a_cpu_take_larger_steps():
    engine = read("-tp", "2", accelerator=CPU)
    assert (engine.max_num_seqs, engine.max_num_batched_tokens) == (256, 4096)


@pytest.mark.parametrize(
    ("environment", "accelerator", "expected"),
    [
        pytest.param({"VLLM_CPU_KVCACHE_SPACE": "4"}, CPU, 4 * 1024**3, id="GiB on a CPU"),
        pytest.param({"VLLM_CPU_KVCACHE_SPACE": ""}, CPU, 10**9, id="empty is not set"),
        pytest.param({"VLLM_CPU_KVCACHE_SPACE": "4"}, H100, 10**9, id="nothing on a GPU"),
    ],
)
def test_the_cache_of_a_cpu_may_come_from_the_environment(environment, accelerator, expected):
    engine = read("--kv-cache-memory-bytes", "1g", accelerator=accelerator, environment=environment)
    assert engine.kv_cache_memory_bytes == expected


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        pytest.param(["--gpu-memory-utilization", "0.8"], {"gpu_memory_utilization": 0.8}, id="utilization"),
        pytest.param(["--max-model-len", "32k"], {"max_model_len": 32_000}, id="a length"),
        pytest.param(["--max-model-len", "auto"], {"auto_max_model_len": True}, id="the length that fits"),
        pytest.param(
            ["--max-model-len", "-1"], {"auto_max_model_len": True}, id="the length that fits, as -1"
        ),
        pytest.param(["--kv-cache-dtype", "fp8"], {"kv_cache_dtype": "fp8"}, id="the type of the cache"),
        pytest.param(
            ["--mamba-ssm-cache-dtype", "float32"], {"state_bytes_per_element": 4}, id="the type of states"
        ),
        pytest.param(["--block-size", "64"], {"block_size": 64}, id="blocks"),
        pytest.param(
            ["--kv-cache-memory-bytes", "10G"], {"kv_cache_memory_bytes": 10 * 1024**3}, id="memory"
        ),
        pytest.param(
            ["-tp", "4", "-dcp", "2"], {"tensor_parallel": 4, "decode_context_parallel": 2}, id="context"
        ),
        pytest.param(["-pp", "2"], {"pipeline_parallel": 2, "concurrent_batches": 3}, id="a pipeline"),
        pytest.param(["-dp", "2", "-ep"], {"data_parallel": 2, "expert_parallel": True}, id="experts"),
        pytest.param(["--enforce-eager"], {"cuda_graphs": False}, id="no graphs"),
        pytest.param(["--no-enable-prefix-caching"], {"prefix_caching": False}, id="no prefix caching"),
        pytest.param(["--no-async-scheduling"], {"concurrent_batches": 1}, id="one step at a time"),
        pytest.param(
            ["--disable-hybrid-kv-cache-manager"], {"hybrid_kv_cache": False}, id="windows kept whole"
        ),
    ],
)
def test_an_argument_sets_what_it_says(words, changes):
    assert read(*words) == replace(read(), **changes)


@pytest.mark.parametrize(
    ("config", "layers", "tokens", "batches"),
    [
        pytest.param('{"method": "eagle3", "num_speculative_tokens": 3}', 1, 3, 2, id="EAGLE is a layer"),
        pytest.param('{"model": "a/EAGLE-LLaMA3", "num_speculative_tokens": 3}', 1, 3, 2, id="by its name"),
        pytest.param('{"method": "deepseek_mtp", "num_speculative_tokens": 1}', 1, 1, 2, id="so is MTP"),
        pytest.param('{"method": "ngram", "num_speculative_tokens": 5}', 0, 5, 1, id="n-grams are none"),
        pytest.param('{"model": "a/medusa-7b", "num_speculative_tokens": 5}', 0, 5, 1, id="nor is Medusa"),
        pytest.param('{"method": "mtp"}', 1, 0, 2, id="the number of tokens is left to the model"),
    ],
)
def test_a_drafter_keeps_layers(config, layers, tokens, batches):
    engine = read("--speculative-config", config)
    assert (engine.speculative_layers, engine.speculative_tokens) == (layers, tokens)
    assert engine.concurrent_batches == batches
    assert engine.unknown == ()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(
            ["-sc", '{"model": "meta/Llama-3.2-1B", "num_speculative_tokens": 4}'],
            "A drafter of method `draft_model` has layers of its own, whose memory is not counted.",
            id="another model drafts",
        ),
        pytest.param(
            ["--config", "/etc/vllm.yaml"],
            "`--config` names a file in the image that is not read; what it sets is not counted.",
            id="a file of arguments",
        ),
        pytest.param(
            ["--kv-cache-dtype", "turboquant_4bit_nc"],
            "KV cache in `turboquant_4bit_nc` is counted as one byte for each element; it takes less.",
            id="a type whose size is a bound",
        ),
    ],
)
def test_what_the_arguments_leave_open_is_said(words, sentence):
    assert read(*words).unknown == (sentence,)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["--max-num-seqs", "0"], "--max-num-seqs is 0; give a number from 1 to 1,000,000", id="zero"
        ),
        pytest.param(
            ["-tp", "-2"], "--tensor-parallel-size is -2; give a number from 1 to 1,024", id="negative"
        ),
        pytest.param(
            ["--max-model-len", "9t"],
            "--max-model-len is 9t; give a number from 1 to 1,000,000,000",
            id="absurd",
        ),
        pytest.param(["--max-num-seqs"], "--max-num-seqs has no value; give one or remove it", id="no value"),
        pytest.param(
            ["--gpu-memory-utilization", "92"],
            "--gpu-memory-utilization is 92; give a share above 0, at most 1",
            id="a percentage",
        ),
        pytest.param(
            ["--gpu-memory-utilization", "most"],
            "--gpu-memory-utilization is most; give a share above 0, at most 1",
            id="a word for a share",
        ),
        pytest.param(
            ["--gpu-memory-utilization", "nan"],
            "--gpu-memory-utilization is nan; give a share above 0, at most 1",
            id="no number at all",
        ),
        pytest.param(
            ["--performance-mode", "fast"],
            "--performance-mode is `fast`, which vLLM does not know; it takes balanced, interactivity, "
            "throughput",
            id="an unknown mode",
        ),
        pytest.param(
            ["-tp", "4", "-dcp", "3"],
            "--decode-context-parallel-size is 3, which does not divide the 4 ranks of "
            "--tensor-parallel-size; give a divisor",
            id="ranks that do not divide",
        ),
        pytest.param(
            ["--max-num-batched-tokens", "128", "--max-num-seqs", "256"],
            "--max-num-batched-tokens (128) is less than --max-num-seqs (256); a step has a token for each "
            "request, so raise it or lower --max-num-seqs",
            id="a step smaller than the batch",
        ),
        pytest.param(
            ["-sc", '{"num_speculative_tokens": 0}'],
            "num_speculative_tokens is 0; give a number from 1 to 1,000",
            id="a drafter that drafts nothing",
        ),
    ],
)
def test_what_vllm_would_refuse_is_refused_in_a_sentence(words, message):
    assert refusal(*words) == f"`engine.args`: {message}"


def test_an_unknown_type_is_refused_with_the_known_ones():
    message = refusal("--kv-cache-dtype", "fp3")
    assert message.startswith(
        "`engine.args`: --kv-cache-dtype is `fp3`, which vLLM does not know; it takes auto, "
    )
    assert "float16, fp8, fp8_ds_mla" in message


def test_a_cache_of_no_number_in_the_environment_is_refused():
    message = refusal(accelerator=CPU, environment={"VLLM_CPU_KVCACHE_SPACE": "4GiB"})
    assert message == (
        "`engine.env`: VLLM_CPU_KVCACHE_SPACE is `4GiB`, which is not a whole number; give one such as 64"
    )


def test_the_arguments_of_a_service_are_read_as_they_are_meant():
    spec = InferenceServiceSpec.model_validate({
        "model": {"uri": "hf://meta-llama/Llama-3.1-70B", "contextLength": 8192, "kvCacheDtype": "fp8"},
        "accelerator": {"type": "nvidia-h100-80gb", "count": 2},
        "engine": {"performance": "interactivity", "args": ["--max_num_seqs=64"]},
    })  # fmt: skip
    assert read(*engine_args(spec, service_name="chat")) == EngineSettings(
        max_num_seqs=64,
        max_num_batched_tokens=2048,
        max_model_len=8192,
        kv_cache_dtype="fp8",
        tensor_parallel=2,
    )
