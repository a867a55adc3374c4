"""`stoker plan` from its arguments to what it prints."""

import pytest
import yaml
from tests.unit.cli.plan.shown import CONFIGS

from stoker.api.v1alpha1 import InferenceService

QWEN = ("--model", "Qwen2.5-7B-Instruct")
L40S = ("--accelerator", "nvidia-l40s")
LOAD = ("--load", "5", "--prompt", "1000", "--output", "250")

SERVICE = """\
apiVersion: serving.stoker.dev/v1alpha1
kind: InferenceService
metadata: {name: chat}
spec:
  model: {uri: "hf://Qwen/Qwen2.5-7B-Instruct", contextLength: 8192}
  accelerator: {type: nvidia-h100-80gb}
  engine: {args: ["--max-num-seqs", "64"]}
  scaling: {objective: {startWithinSeconds: 1, percent: 90}}
"""


def test_the_json_has_the_keys_that_programs_rely_on(plan):
    answer = plan(*QWEN, *L40S, *LOAD, "-o", "json").json
    assert answer["fits"] is True
    assert {"visible", "weights", "non_torch", "activation", "reserve", "kv"} <= answer["memory"].keys()
    assert {"bytes_per_token", "block_size", "blocks"} <= answer["kv"].keys()
    assert {"2048", "8192", "32768", "131072"} <= answer["concurrency"].keys()
    assert answer["max_context_length"] == 32_768
    assert answer["replicas"] >= 1
    assert answer["cost"]["per_hour"]["likely"] > 0
    assert isinstance(answer["notes"], list)


def test_memory_adds_up_and_is_in_gib_for_each_accelerator(plan):
    memory = plan(*QWEN, *L40S, "-o", "json").json["memory"]
    assert memory["visible"] == 44.42
    assert memory["weights"] == pytest.approx(14.19, abs=0.02)
    assert sum(size for part, size in memory.items() if part != "visible") == pytest.approx(44.42, abs=0.005)


def test_kv_is_that_of_the_shared_text(plan):
    kv = plan(*QWEN, *L40S, "-o", "json").json["kv"]
    assert (kv["bytes_per_token"], kv["block_size"]) == (57_344, 16)


def test_yaml_says_the_same_as_json(plan):
    assert plan(*QWEN, *L40S, "-o", "yaml").yaml == plan(*QWEN, *L40S, "-o", "json").json


def test_without_a_load_there_are_no_replicas_but_the_cost_of_one_instance(plan):
    answer = plan(*QWEN, *L40S, "-o", "json").json
    assert answer["replicas"] is None
    assert answer["cost"]["per_hour"]["likely"] == answer["cost"]["price_per_accelerator_hour"]


def test_a_model_that_does_not_fit_prints_all_the_same_and_ends_with_1(plan):
    done = plan("--model", "Meta-Llama-3.1-70B", *L40S, *LOAD, "-o", "json")
    assert done.status == 1
    assert done.json["fits"] is False
    assert done.json["memory"]["kv"] < 0
    assert done.json["replicas"] is None
    assert done.json["cost"] is None
    assert any("does not" in note for note in done.json["notes"])


def test_a_context_that_does_not_fit_names_the_largest_that_does(plan):
    done = plan("--model", "Llama-3.3-70B-Instruct-FP8", "--accelerator", "nvidia-h200", "--count", 1)
    short = plan("--model", "Llama-3.3-70B-Instruct-FP8", "--accelerator", "nvidia-h100-80gb", "-o", "json")
    assert done.status == 0
    assert short.status == 1
    assert short.json["max_context_length"] < 131_072


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(("--count", 2), id="more accelerators"),
        pytest.param(("--kv-dtype", "fp8"), id="a smaller type of KV"),
        pytest.param(("--quantization", "fp8"), id="smaller weights"),
        pytest.param(("--context", 16_384), id="a shorter context"),
    ],
)
def test_what_makes_room_holds_more_requests(plan, changes):
    before = plan(*QWEN, *L40S, "-o", "json").json
    after = plan(*QWEN, *L40S, *changes, "-o", "json").json
    assert after["requests"] > before["requests"]


def test_a_context_that_the_model_was_not_made_for_is_noted(plan):
    notes = plan(*QWEN, *L40S, "--context", 65_536, "-o", "json").json["notes"]
    assert any("65,536 tokens are more than the 32,768" in note for note in notes)


def test_fewer_requests_at_once_are_fewer(plan):
    answer = plan(*QWEN, *L40S, "--max-num-seqs", 3, "-o", "json").json
    assert answer["requests"] == 3


def test_a_price_of_your_own_takes_the_place_of_the_list_price(plan):
    answer = plan(*QWEN, *L40S, "--price", "nvidia-l40s=1.20", "-o", "json").json
    assert answer["cost"]["price_per_accelerator_hour"] == 1.2


def test_a_missing_price_is_no_price_and_never_0(plan):
    kind = ("--accelerator", "intel-gaudi3")
    done = plan(*QWEN, *kind, "-o", "json")
    assert done.json["cost"] is None
    assert any("no price for" in note for note in done.json["notes"])
    assert "no price" in plan(*QWEN, *kind).out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(
            (*QWEN, "--accelerator", "l40"),
            "--accelerator: There is no accelerator `l40` in the catalogue; did you mean",
            id="an accelerator of another name",
        ),
        pytest.param(
            (*QWEN, *L40S, "--count", "0"), "--count 0 is not between 1 and 16", id="no accelerator at all"
        ),
        pytest.param(
            (*QWEN, *L40S, *LOAD, "--objective", "soon"),
            "--objective: the objective 'soon' is not TIME@PERCENT",
            id="an objective of no form",
        ),
        pytest.param(
            (*QWEN, *L40S, "--kv-dtype", "fp3"),
            "--kv-cache-dtype is `fp3`, which vLLM does not",
            id="a KV type",
        ),
        pytest.param(
            (*QWEN, *L40S, "--quantization", "fp9"), "--quantization: there is no way", id="a quantization"
        ),
        pytest.param(
            (*QWEN, *L40S, "--price", "nvidia-l40=1"),
            "There is no accelerator `nvidia-l40`",
            id="a price of none",
        ),
        pytest.param(
            (*QWEN, *L40S, "--load", "1", "--prompt", "40000", "--output", "10"),
            "a request of 40,010 tokens is longer than the context of 32,768",
            id="requests that are longer than the context",
        ),
        pytest.param(
            ("--model", "nothing-here", *L40S), "there is no file or folder nothing-here", id="no such folder"
        ),
        pytest.param(("--model", ".", *L40S), "config.json", id="a folder without a config"),
        pytest.param(
            ("--model", "ftp://x/y", *L40S), "must start with one of hf://", id="a source of no kind"
        ),
        pytest.param(("--model", "pvc://claim/x", *L40S), "only pods can read", id="a claim"),
        pytest.param(
            ("--model", "https://127.0.0.1:9/model", *L40S), "127.0.0.1", id="a server that is not there"
        ),
    ],
)
def test_bad_input_is_one_sentence_and_ends_with_2(plan, arguments, sentence):
    done = plan(*arguments)
    assert done.status == 2
    assert sentence in done.sentence
    assert done.out == ""


def test_the_table_shows_the_arithmetic(plan):
    out = plan(*QWEN, *L40S, *LOAD).out
    assert "It fits" in out
    assert "44.42 GiB" in out
    assert "Largest context that fits: 32,768 tokens" in out
    assert "█" in out
    assert "replicas" in out
    assert "per million output tokens" in out


def test_a_service_of_a_file_is_planned_for_as_the_operator_reads_it(plan, here):
    (here / "service.yaml").write_text(SERVICE)
    answer = plan("-f", "service.yaml", "--model", "Qwen2.5-7B-Instruct", "-o", "json").json
    assert answer["accelerator"] == "nvidia-h100-80gb"
    assert answer["context_length"] == 8192
    assert answer["requests"] == 64


def test_the_accelerators_are_those_that_the_arguments_use(plan, here):
    (here / "service.yaml").write_text(SERVICE.replace('"64"', '"64", "-pp", "2"'))
    done = plan("-f", "service.yaml", "--model", "Qwen2.5-7B-Instruct")
    assert done.out.splitlines()[0].endswith(" on 2 x nvidia-h100-80gb")


def test_options_override_the_file(plan, here):
    (here / "service.yaml").write_text(SERVICE)
    options = (*L40S, "--context", 16_384, "--max-num-seqs", 8, "--model", "Qwen2.5-7B-Instruct")
    answer = plan("-f", "service.yaml", *options, "-o", "json").json
    assert answer["accelerator"] == "nvidia-l40s"
    assert answer["context_length"] == 16_384
    assert answer["requests"] == 8


def test_the_objective_of_the_file_is_that_of_the_load(plan, here):
    (here / "service.yaml").write_text(SERVICE)
    out = plan("-f", "service.yaml", "--model", "Qwen2.5-7B-Instruct", *LOAD).out
    assert "90 % start within 1 s" in out


def test_what_the_file_allows_is_compared_with_what_the_load_needs(plan, here):
    (here / "service.yaml").write_text(SERVICE)
    options = ("--model", "Qwen2.5-7B-Instruct", "--load", 50, "--prompt", 1000, "--output", 250)
    done = plan("-f", "service.yaml", *options)
    assert done.status == 0
    assert "but the load needs" in done.out
    assert "`scaling.maxReplicas` is 1" in done.out


def test_adapters_of_the_file_are_noted_as_not_counted(plan, here):
    adapters = "model: {adapters: [{name: x, uri: 'hf://a/b'}], "
    (here / "service.yaml").write_text(SERVICE.replace("model: {", adapters))
    notes = plan("-f", "service.yaml", "--model", "Qwen2.5-7B-Instruct", "-o", "json").json["notes"]
    assert "The memory that adapters take is not counted." in notes


def test_a_promised_latency_leaves_slots_empty_and_says_how_to_set_it(plan, here):
    promise = SERVICE + "  objectives: {interTokenLatency: {withinMilliseconds: 10}}\n"
    (here / "service.yaml").write_text(promise.replace('["--max-num-seqs", "64"]', "[]"))
    answer = plan("-f", "service.yaml", "--model", "Qwen2.5-7B-Instruct", "-o", "json").json
    assert answer["speed"]["full"]["inter_token_latency_s"]["likely"] <= 0.010
    assert any(f"set --max-num-seqs {answer['slots']}" in note for note in answer["notes"])


def test_a_manifest_is_a_service_that_the_api_takes(plan):
    done = plan(*QWEN, *L40S, "--count", 2, "--context", 16_384, "--manifest")
    assert done.status == 0
    service = InferenceService.model_validate(done.yaml)
    assert service.spec.accelerator.count == 2
    assert service.spec.model.context_length == 16_384
    assert done.out.startswith("# Qwen2.5-7B-Instruct lies on your machine")


def test_there_is_no_manifest_of_what_does_not_fit(plan):
    done = plan("--model", "Meta-Llama-3.1-70B", *L40S, "--manifest")
    assert (done.status, done.out) == (1, "")
    assert "does not fit" in done.err


def test_advice_ranks_by_money_and_says_why_not(plan):
    answer = plan(*QWEN, "--advise", *LOAD, "-o", "json").json
    priced = [c["cost"]["per_hour"]["likely"] for c in answer["choices"] if c["cost"]]
    assert priced == sorted(priced)
    unpriced = [c["cost"] is None for c in answer["choices"]]
    assert unpriced == sorted(unpriced), "those without a price come last"
    assert all(row["reason"] for row in answer["rejected"])


def test_advice_as_a_table_marks_estimates_and_missing_prices(plan):
    out = plan(*QWEN, "--advise", *LOAD).out
    assert "Estimates" in out
    assert "no price" in plan(*QWEN, "--advise", "--accelerator", "intel-gaudi3").out


def test_the_best_advice_is_a_manifest_too(plan):
    best = plan(*QWEN, "--advise", *LOAD, "-o", "json").json["choices"][0]
    service = yaml.safe_load(plan(*QWEN, "--advise", *LOAD, "--manifest").out)
    assert service["spec"]["accelerator"] == {"type": best["accelerator"], "count": best["count"]}


def test_advice_that_needs_another_checkpoint_is_no_manifest(plan):
    model = ("--model", "Meta-Llama-3.1-70B")
    best = plan(*model, "--advise", "-o", "json").json["choices"][0]
    assert best["needs_checkpoint"]
    service = yaml.safe_load(plan(*model, "--advise", "--manifest").out)
    assert service["spec"]["model"].get("quantization") in (None, "fp8")


@pytest.mark.parametrize("config", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_every_real_config_is_answered(plan, config):
    done = plan("--model", config, "--accelerator", "nvidia-h100-80gb", "--count", 4, "-o", "json")
    answer = done.json
    assert done.status == (0 if answer["fits"] else 1)
    assert answer["fits"] == (answer["requests"] > 0)
    assert answer["fits"] == (answer["max_context_length"] >= answer["context_length"])
    assert (answer["cost"] is not None) == answer["fits"]
    parts = sum(size for part, size in answer["memory"].items() if part != "visible")
    assert parts == pytest.approx(answer["memory"]["visible"], abs=0.01)


def test_nothing_in_the_catalogue_ends_with_1(plan):
    done = plan("--model", "DeepSeek-V3", "--advise", "--accelerator", "nvidia-l4", "-o", "json")
    assert done.status == 1
    assert done.json["choices"] == []
