import json
from pathlib import Path

import pytest

from stoker_serving.capacity import cache_config_of, report
from stoker_serving.engine_log import EngineLog

RECORDED = Path(__file__).parents[1] / "stand_in_engine" / "vllm-0.32.0.json"
SERIES = (
    'vllm:cache_config_info{block_size="16",engine="%d",kv_cache_max_concurrency="14.5",'
    'kv_cache_memory_bytes="None",kv_cache_size_tokens="475136",num_gpu_blocks="59392"} 1.0'
)


def logged(*lines):
    log = EngineLog()
    log.feed("".join(f"{line}\n" for line in lines).encode())
    return log


LOG = logged(
    "Model loading took 15.0 GiB memory and 3.5 seconds",
    "Available KV cache memory: 20.0 GiB",
    "GPU KV cache size: 475,136 tokens, Maximum concurrency for 32,768 tokens per request: 14.50x",
)


def test_reads_what_vllm_032_really_says():
    cache = cache_config_of(json.loads(RECORDED.read_text())["metrics"]["body"])
    found = report(EngineLog(), cache, max_model_len=512, visible_bytes=None)
    assert found == {
        "kvCacheTokens": 2097152,
        "maxConcurrency": 4096.0,
        "maxModelLen": 512,
        "blocks": 16384,
        "blockSize": 128,
        "kvBytes": 1_073_741_824,
        "weightsBytes": None,
        "visibleBytes": None,
    }


@pytest.mark.parametrize(
    ("engines", "tokens", "concurrency"),
    [
        pytest.param(1, 475_136, 14.5, id="one engine"),
        pytest.param(2, 950_272, 29.0, id="two engines, of which the labels tell one"),
    ],
)
def test_tokens_and_requests_are_those_of_all_engines_and_blocks_are_so_already(engines, tokens, concurrency):
    cache = cache_config_of("\n".join(SERIES % engine for engine in range(engines)))
    found = report(LOG, cache, max_model_len=32_768, visible_bytes=48_000_000_000)
    assert (found["kvCacheTokens"], found["maxConcurrency"]) == (tokens, concurrency)
    assert found["blocks"] == 59_392
    assert found["kvBytes"] == 20 * 2**30
    assert found["visibleBytes"] == 48_000_000_000


def test_the_log_has_to_do_where_metrics_say_nothing():
    found = report(
        LOG, cache_config_of("vllm:num_requests_running 0.0"), max_model_len=32_768, visible_bytes=None
    )
    assert (found["kvCacheTokens"], found["maxConcurrency"]) == (475_136, 14.5)
    assert (found["blocks"], found["blockSize"]) == (None, None)
    assert found["weightsBytes"] == 15 * 2**30


@pytest.mark.parametrize("value", ["None", "", "nan", "inf", "-1", "0", "many"])
def test_a_label_without_a_number_says_nothing(value):
    cache = cache_config_of(f'vllm:cache_config_info{{kv_cache_size_tokens="{value}",engine="0"}} 1.0')
    assert cache.number("kv_cache_size_tokens") is None
    assert report(EngineLog(), cache, max_model_len=None, visible_bytes=None) is None
