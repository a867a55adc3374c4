from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.capacity.real_models import model
from tests.unit.core.simulator import a_settled_cluster, only

from stoker.core.capacity.catalog import ACCELERATORS
from stoker.core.capacity.engine_settings import EngineSettings
from stoker.core.capacity.estimate import estimate
from stoker.core.capacity.weights import weights_size
from stoker.core.capacity_record import Measured, estimated_record, measured, measured_record, ratio_of
from stoker.core.model import MeasuredCapacity

NOTHING = MeasuredCapacity(
    kv_cache_tokens=None,
    blocks=None,
    block_size=None,
    max_concurrency=None,
    max_model_len=None,
    kv_bytes=None,
    weights_bytes=None,
    visible_bytes=None,
    engine_version="",
)
LLAMA = model("meta-llama--Meta-Llama-3.1-8B")
ESTIMATE = estimate(
    LLAMA,
    weights_size(LLAMA, stored=None),
    accelerator=ACCELERATORS["nvidia-l40s"],
    settings=EngineSettings(max_num_seqs=256, max_num_batched_tokens=2048),
)


def record(*, whole=True, most=256, estimate=ESTIMATE, before=None, ratio=0.99, **found):
    return measured_record(
        Measured(smallest=replace(NOTHING, **found), whole=whole),
        revision="chat-1",
        estimate=estimate,
        ratio=ratio,
        most=most,
        before=before or {},
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            {"max_concurrency": 14.34, "kv_cache_tokens": 470_016, "max_model_len": 32_768},
            {"requestsPerInstance": 14, "kvCacheTokens": 470_016, "contextLength": 32_768},
            id="all that vLLM says",
        ),
        pytest.param(
            {"kv_cache_tokens": 470_016, "max_model_len": 32_768},
            {"requestsPerInstance": 14, "kvCacheTokens": 470_016, "contextLength": 32_768},
            id="tokens alone",
        ),
        pytest.param(
            {"max_concurrency": 3.5},
            {"requestsPerInstance": 3, "contextLength": 131_072},
            id="requests of the length that was asked for",
        ),
        pytest.param({"max_concurrency": 700.0}, {"requestsPerInstance": 256}, id="the batch is the limit"),
    ],
)
def test_what_the_engine_says_becomes_requests(found, expected):
    got = record(**found)
    assert {key: got[key] for key in expected} == expected
    assert got["source"] == "measured"
    assert got["measuredToEstimated"] == 0.99
    assert got["maxContextLength"] == ESTIMATE.max_context_length
    assert got["maxNumSeqs"] == 256


def test_the_arithmetic_says_where_the_number_comes_from():
    said = record(max_concurrency=700.0, kv_cache_tokens=470_016, max_model_len=671)["arithmetic"]
    assert said == (
        "measured by the engine: 470,016 tokens of KV cache, 700.00 requests of 671 tokens, "
        "at most 256 at once (max_num_seqs), 0.99 of the estimate"
    )


def test_without_an_estimate_what_was_measured_stands_alone():
    assert record(kv_cache_tokens=5, estimate=None, most=None, ratio=None) == {
        "revision": "chat-1",
        "source": "measured",
        "kvCacheTokens": 5,
        "arithmetic": "measured by the engine: 5 tokens of KV cache",
    }
    assert record(max_concurrency=1.5, estimate=None, most=None, ratio=None)["arithmetic"] == (
        "measured by the engine: 1.50 requests"
    )


@pytest.mark.parametrize(
    ("tokens", "whole", "expected"),
    [
        pytest.param(900, False, 1000 - 100, id="a smaller one counts at once"),
        pytest.param(1100, False, 1000, id="a larger one waits for the others"),
        pytest.param(1100, True, 1100, id="until all have said it"),
    ],
)
def test_the_smallest_instance_counts(tokens, whole, expected):
    before = record(kv_cache_tokens=1000, max_model_len=100)
    got = record(kv_cache_tokens=tokens, max_model_len=100, whole=whole, before=before)
    assert got["kvCacheTokens"] == expected


def test_what_another_revision_measured_does_not_count():
    before = record(kv_cache_tokens=10, max_model_len=100) | {"revision": "chat-0"}
    assert record(kv_cache_tokens=1000, whole=False, before=before)["kvCacheTokens"] == 1000


@pytest.mark.parametrize(
    ("found", "ratio"),
    [
        pytest.param({"kv_bytes": ESTIMATE.budget.kv // 2}, 0.5, id="by bytes"),
        pytest.param({"kv_cache_tokens": ESTIMATE.kv_cache_tokens * 2}, 2.0, id="else by tokens"),
        pytest.param({"max_concurrency": 3.0}, None, id="else not at all"),
    ],
)
def test_the_ratio_is_of_what_was_measured_to_what_was_estimated(found, ratio):
    assert ratio_of(replace(NOTHING, **found), ESTIMATE) == ratio


def test_an_estimate_of_nothing_has_no_ratio():
    nothing = replace(ESTIMATE, budget=replace(ESTIMATE.budget, kv=-1), kv_cache_tokens=0)
    assert ratio_of(replace(NOTHING, kv_bytes=5, kv_cache_tokens=5), nothing) is None


def test_an_estimate_shows_its_arithmetic():
    got = estimated_record(ESTIMATE, revision="chat-1", ratio=None)
    assert got["source"] == "estimated"
    assert got["arithmetic"].startswith("0.92 x 44.4 GiB - 15.0 weights")
    assert "measuredToEstimated" not in got


def test_only_ready_instances_of_the_revision_that_say_something_are_heard():
    cluster = a_settled_cluster(replicas=3)
    revision = only(cluster.deployments)
    first, second, third = sorted(cluster.reports)
    assert measured(cluster.observe(), revision=revision) is None
    for pod, capacity in ((first, replace(NOTHING, kv_cache_tokens=7)), (second, NOTHING)):
        cluster.reports[pod] = replace(cluster.reports[pod], capacity=capacity)
    found = measured(cluster.observe(), revision=revision)
    assert (found.smallest.kv_cache_tokens, found.whole) == (7, False)
    for pod in (second, third):
        capacity = replace(NOTHING, kv_cache_tokens=9)
        cluster.reports[pod] = replace(cluster.reports[pod], capacity=capacity)
    assert measured(cluster.observe(), revision=revision).whole
    assert measured(cluster.observe(), revision="another") is None


@settings(max_examples=50)
@given(st.lists(st.integers(min_value=100, max_value=10**6), min_size=1, max_size=6))
def test_the_order_in_which_instances_answer_a_new_operator_changes_nothing(tokens):
    before = record(kv_cache_tokens=min(tokens), max_model_len=100)
    for heard in range(1, len(tokens) + 1):
        smallest, whole = min(tokens[:heard]), heard == len(tokens)
        assert record(kv_cache_tokens=smallest, max_model_len=100, whole=whole, before=before) == before
