import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_serving.engine_log import EngineLog, words_of
from stoker_serving.stages import Stage

START = (
    b"(APIServer pid=1) INFO 11-30 23:25:26 [model.py:733] Resolved architecture: LlamaForCausalLM\n"
    b"(Worker pid=9) INFO 11-30 23:25:54 [cpu_model_runner.py:68] Starting to load model /m...\n"
    b"Loading safetensors checkpoint shards:   0% Completed | 0/2 [00:00<?, ?it/s]\r"
    b"Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<?, ?it/s]\r\n"
    b"(EngineCore pid=7) INFO 11-30 23:25:56 [kv_cache_utils.py:2327] GPU KV cache size: 1,234 tokens\n"
    b"(EngineCore pid=7) INFO 11-30 23:25:56 [x:1] Maximum concurrency for 1,024 tokens per request: 1.21x\n"
)


def test_tells_stage_progress_and_capacity():
    log = EngineLog()
    assert log.stage is Stage.STARTING
    log.feed(START)
    assert log.stage is Stage.LOADING
    assert log.progress.startswith("Loading safetensors checkpoint shards:  50% Completed")
    assert log.kv_cache_tokens == 1234
    assert log.max_concurrency == 1.21


GIB = 2**30


@pytest.mark.parametrize(
    ("lines", "weights_bytes", "kv_bytes", "memory_node"),
    [
        pytest.param([], None, None, None, id="nothing"),
        pytest.param(
            [
                "Model loading took 14.99 GiB memory and 3.518233 seconds",
                "Available KV cache memory: 22.4 GiB",
            ],
            round(14.99 * GIB),
            round(22.4 * GIB),
            None,
            id="one accelerator",
        ),
        pytest.param(
            [
                "(Worker_TP1 pid=8) INFO 12-01 00:00:01 [x:1] Model loading took 33.7 GiB memory and 1.0 s",
                "(Worker_TP0 pid=7) INFO 12-01 00:00:02 [x:1] Model loading took 33.88 GiB memory and 1.0 s",
                "(Worker_TP0 pid=7) INFO 12-01 00:00:09 [x:1] Available KV cache memory: 35.2 GiB",
                "(Worker_TP1 pid=8) INFO 12-01 00:00:09 [x:1] Available KV cache memory: 35.4 GiB",
            ],
            round(33.88 * GIB),
            round(35.2 * GIB),
            None,
            id="of several ranks the one with least room",
        ),
        pytest.param(
            ["Initial free memory 78.6 GiB, reserved 40.0 GiB memory for KV Cache as specified by kv_cache_"],
            None,
            40 * GIB,
            None,
            id="as much as was told",
        ),
        pytest.param(
            ["Explicitly set (1.0/15.51) GiB for KV cache on node 1."], None, GIB, 1, id="a CPU, as told"
        ),
        pytest.param(
            ["Auto set (9.5/15.51) GiB for KV cache on node 0, with 14.27 GiB requested memory"],
            None,
            round(9.5 * GIB),
            0,
            id="a CPU, by itself",
        ),
    ],
)
def test_tells_the_bytes_that_vllm_measured(lines, weights_bytes, kv_bytes, memory_node):
    log = EngineLog()
    log.feed("".join(f"{line}\n" for line in lines).encode())
    assert (log.weights_bytes, log.kv_bytes, log.memory_node) == (weights_bytes, kv_bytes, memory_node)


@given(st.lists(st.integers(0, len(START))))
def test_pieces_of_any_size_tell_the_same(cuts):
    whole, pieces = EngineLog(), EngineLog()
    whole.feed(START)
    places = [0, *sorted(cuts), len(START)]
    for start, end in itertools.pairwise(places):
        pieces.feed(START[start:end])
    assert pieces.last_words() == whole.last_words()
    assert pieces.kv_cache_tokens == whole.kv_cache_tokens


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "(Worker pid=9) ERROR 11-30 23:33:56 [multiproc_executor.py:953] RuntimeError: x",
            "RuntimeError: x",
        ),
        ("(EngineCore_DP0 pid=9) INFO 11-30 23:33:56 [core.py:1] up", "up"),
        ("(Worker rank=0 pid=9) INFO 11-30 23:33:56 [core.py:1] up", "up"),
        ("ValueError: y\n", "ValueError: y"),
        ("", ""),
    ],
)
def test_words_without_what_vllm_puts_before_them(line, words):
    assert words_of(line) == words


def test_an_unfinished_line_is_among_the_last_words():
    log = EngineLog()
    log.feed(b"first\nSegmentation fault")
    assert log.last_words() == ["first", "Segmentation fault"]
