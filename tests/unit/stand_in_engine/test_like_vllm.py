"""Every recorded answer of vLLM 0.32 has the same status, headers, fields and words as ours."""

import json
import re
from pathlib import Path

import pytest
from tests.unit.stand_in_engine.recording import CASES, ask

RECORDED = json.loads(Path(__file__).with_name("vllm-0.32.0.json").read_text())

DIFFERENT = {
    "created": "a time",
    "system_fingerprint": "vllm-",
    "content": "text",
    "text": "text",
    "root": "a path",
    "prompt_tokens": "by the tokenizer",
    "total_tokens": "by the tokenizer",
    "count": "by the tokenizer",
    "tokens": "by the tokenizer",
    "token_strs": "by the tokenizer",
    "version": "ours says that it is a stand-in",
}
"""Fields whose values have to differ, and why."""


def comparable(value, name=""):
    """The value without what has to differ."""
    if name == "id":
        return re.sub(r"[0-9a-f]{16}$", "<id>", value)
    if name == "message" and isinstance(value, str):
        return re.sub(r"\d+ characters|more than \d+|value=\d{4}", "<n>", value)
    if name in DIFFERENT and value is not None:
        return f"<{type(value).__name__}>"
    if isinstance(value, dict):
        return [(key, comparable(item, key)) for key, item in value.items()]
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return value


def shape(answer):
    """Everything about an answer that must be the same."""
    body = answer["body"]
    if "event-stream" in answer["headers"].get("content-type", ""):
        body = stream_shape(body)
    elif body:
        body = comparable(json.loads(body))
    return {"status": answer["status"], "headers": answer["headers"], "body": body}


def stream_shape(text):
    """The kinds of events of each choice in their order, then the others; choices may interleave."""
    by_choice = {0: [], 1: [], None: []}
    for line in text.split("\n\n"):
        document = json.loads(line.removeprefix("data: ")) if line and "[DONE]" not in line else {"end": line}
        choices = document.get("choices")
        kinds = by_choice[choices[0]["index"] if choices else None]
        if comparable(document) not in kinds:
            kinds.append(comparable(document))
    return by_choice


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in CASES])
def test_answers_as_vllm_does(engine, name):
    ours, theirs = ask(engine.address, CASES[name]), dict(RECORDED["answers"][name])
    if name == "prompt and answer too long together":
        ours["body"], theirs["body"] = (
            re.sub(r'"completion_tokens":\d+', '"completion_tokens":0', each["body"])
            for each in (ours, theirs)
        )
    assert shape(ours) == shape(theirs)


def samples(text):
    """Name and label names of every sample, and the buckets of histograms."""
    found = set()
    for line in text.splitlines():
        if line.startswith(("vllm:", "http_")):
            name, _, labels = line.rpartition(" ")[0].partition("{")
            pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            kept = tuple(
                pairs.get(key, "") for key in ("le", "reason", "finished_reason", "source", "sleep_state")
            )
            found.add((name, tuple(sorted(pairs)), kept))
    return found


def test_metrics_have_the_names_labels_and_buckets_of_vllm(engine):
    for case in CASES.values():
        ask(engine.address, case)
    ours = ask(engine.address, ("GET", "/metrics", {}, None))
    assert samples(ours["body"]) == samples(RECORDED["metrics"]["body"])
    assert ours["headers"] == RECORDED["metrics"]["headers"]


def test_the_cache_is_described_as_vllm_does(engine):
    def labels(text):
        line = next(line for line in text.splitlines() if line.startswith("vllm:cache_config_info"))
        return dict(re.findall(r'(\w+)="([^"]*)"', line))

    ours = labels(engine.get("/metrics").text)
    theirs = labels(RECORDED["metrics"]["body"])
    # vLLM for CPU has larger blocks, was told its KV cache, and caches prefixes.
    ours_alone = {
        *("block_size", "effective_attention_block_size", "enable_prefix_caching", "kv_cache_memory_bytes"),
        *("kv_cache_max_concurrency", "kv_cache_size_tokens", "num_gpu_blocks"),
    }
    assert {label for label in theirs if ours[label] != theirs[label]} == ours_alone
    assert ours["kv_cache_size_tokens"] == "65536"
    assert (ours["num_gpu_blocks"], ours["block_size"]) == ("4096", "16")
    assert ours["kv_cache_max_concurrency"] == "128.0"
