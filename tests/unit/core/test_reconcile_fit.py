"""Whole reconciles on the pure cluster: what is known of a model's size, and what comes of it."""

import copy
import json
from dataclasses import asdict, replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kstatus import CURRENT, FAILED, IN_PROGRESS, kstatus
from tests.unit.core.capacity.real_models import NAMES, config, model
from tests.unit.core.simulator import (
    NOT_READ,
    Cluster,
    a_report,
    a_service,
    a_spec,
    event_reasons,
    only,
)

from stoker.api.v1alpha1 import InferenceService
from stoker.core.capacity.weights import weights_size
from stoker.core.conditions import find
from stoker.core.model import MeasuredCapacity, ModelFacts

CONFIG = config("meta-llama--Meta-Llama-3.1-8B")
WEIGHTS = weights_size(model("meta-llama--Meta-Llama-3.1-8B"), stored=None)
LLAMA = ModelFacts(version="d04e592", config=CONFIG, weights=WEIGHTS)
"""8 billion parameters and 131,072 tokens: too long for an L4, but not for an A100."""
SMALL = {"type": "nvidia-l4"}
MEASURED = MeasuredCapacity(
    kv_cache_tokens=200_000,
    blocks=12_500,
    block_size=16,
    max_concurrency=1.526,
    max_model_len=131_072,
    kv_bytes=None,
    weights_bytes=None,
    visible_bytes=None,
    engine_version="0.32.0",
)


def a_cluster(answer=LLAMA, **fields):
    cluster = Cluster(a_service(a_spec(**fields)))
    cluster.answer = answer
    return cluster


def settled(cluster):
    cluster.settle()
    return cluster


def kinds(plan):
    return [action.object["kind"] for action in plan.actions]


def says(cluster, capacity):
    """All instances that there are have measured this."""
    cluster.reports = {pod: replace(report, capacity=capacity) for pod, report in cluster.reports.items()}


class TestWhileTheConfigIsBeingRead:
    def test_a_first_revision_gets_no_children_and_is_in_progress(self):
        cluster = a_cluster(answer=None)
        plan = cluster.step()
        assert plan.actions == ()
        assert plan.model_to_read.revision == cluster.wanted
        assert cluster.condition("ModelFits") == ("Unknown", "ReadingConfig")
        assert cluster.condition("Ready") == ("False", "ReadingConfig")
        assert cluster.condition("Reconciling") == ("True", "ReadingConfig")
        assert kstatus(cluster.service).status == IN_PROGRESS
        assert plan.events == ()

    def test_its_children_come_with_the_answer_and_what_was_read_comes_last(self):
        cluster = a_cluster(answer=None, replicas=2)
        cluster.step()
        cluster.answer = LLAMA
        plan = cluster.step()
        assert kinds(plan) == ["ServiceAccount", "Deployment", "Service", "PodDisruptionBudget", "ConfigMap"]
        assert event_reasons(cluster.plans) == ["RevisionCreated"]

    def test_what_serves_goes_on_as_if_nothing_was(self):
        cluster = settled(a_cluster(replicas=2))
        before = copy.deepcopy(cluster.children)
        cluster.edit(engine={"args": ["--max-num-seqs", "8"]})
        cluster.answer = None
        cluster.step()
        assert cluster.children == before
        assert cluster.condition("Ready") == ("True", "Serving")
        assert cluster.condition("RolledOut") == ("False", "ReadingConfig")
        assert kstatus(cluster.service).status == IN_PROGRESS

    def test_what_serves_can_be_scaled(self):
        cluster = settled(a_cluster(replicas=2))
        old = only(cluster.deployments)
        cluster.edit(engine={"args": ["--max-num-seqs", "8"]}, replicas=3)
        cluster.answer = None
        cluster.step()
        assert cluster.deployments[old]["spec"]["replicas"] == 3

    def test_a_revision_that_has_a_deployment_is_not_held_up(self):
        cluster = settled(a_cluster())
        del cluster.children["ConfigMap", "chat-model-files"]
        cluster.service["status"] = {}
        cluster.answer = None
        cluster.settle()
        assert len(cluster.deployments) == 1
        assert cluster.condition("Ready") == ("True", "Serving")
        assert cluster.condition("ModelFits") == ("Unknown", "ReadingConfig")


class TestAModelThatDoesNotFit:
    def test_a_first_revision_never_gets_a_pod(self):
        cluster = settled(a_cluster(accelerator=SMALL))
        assert list(cluster.children) == [("ConfigMap", "chat-model-files")]
        assert cluster.pods == {}
        assert cluster.condition("ModelFits") == ("False", "DoesNotFit")
        assert cluster.condition("Ready") == ("False", "DoesNotFit")
        assert cluster.condition("Stalled") == ("True", "DoesNotFit")
        assert kstatus(cluster.service).status == FAILED
        assert event_reasons(cluster.plans) == ["DoesNotFit"]

    def test_it_is_told_with_the_largest_length_and_the_smallest_accelerator_that_would(self):
        cluster = settled(a_cluster(accelerator=SMALL))
        message = cluster.message("ModelFits")
        longest = cluster.status["capacity"]["maxContextLength"]
        assert message.startswith("one request of 131,072 tokens does not fit on 1 x nvidia-l4: ")
        assert f"Set `model.contextLength` to {longest:,} at most, or use 1 x nvidia-a100-40gb" in message
        assert 0 < longest < 131_072
        assert cluster.status["capacity"]["requestsPerInstance"] == 0

    def test_the_length_that_is_named_fits(self):
        cluster = settled(a_cluster(accelerator=SMALL))
        model = cluster.service["spec"]["model"]
        longest = cluster.status["capacity"]["maxContextLength"]
        cluster.edit(model=model | {"contextLength": longest + 1})
        cluster.settle()
        assert cluster.condition("ModelFits") == ("False", "DoesNotFit")
        cluster.edit(model=model | {"contextLength": longest})
        cluster.settle()
        assert cluster.condition("ModelFits") == ("True", "Fits")
        assert cluster.condition("Ready") == ("True", "Serving")
        assert "Recovered" in event_reasons(cluster.plans)

    def test_what_served_before_goes_on_and_can_be_scaled(self):
        cluster = settled(a_cluster(replicas=2))
        old = only(cluster.deployments)
        capacity = cluster.status["capacity"]
        cluster.edit(accelerator=SMALL, replicas=3)
        cluster.settle()
        assert list(cluster.deployments) == [old]
        assert cluster.deployments[old]["spec"]["replicas"] == 3
        assert cluster.condition("Available") == ("True", "Serving")
        assert cluster.condition("Ready") == ("False", "DoesNotFit")
        assert cluster.status["capacity"] == capacity
        assert [record["phase"] for record in cluster.status["revisions"]] == ["Serving"]

    def test_going_back_ends_it(self):
        cluster = settled(a_cluster())
        before = cluster.service["spec"]
        cluster.edit(accelerator=SMALL)
        cluster.settle()
        cluster.edit(**before)
        cluster.settle()
        assert cluster.condition("Ready") == ("True", "Serving")
        assert cluster.condition("ModelFits") == ("True", "Fits")

    def test_found_out_too_late_takes_no_pod_down(self):
        cluster = settled(a_cluster(accelerator=SMALL, answer=NOT_READ))
        pods = dict(cluster.pods)
        cluster.answer = LLAMA
        cluster.settle()
        assert cluster.pods == pods
        assert cluster.condition("ModelFits") == ("False", "DoesNotFit")
        assert cluster.condition("Ready") == ("True", "Serving")
        assert kstatus(cluster.service).status == CURRENT

    @pytest.mark.parametrize(
        ("more", "fields"),
        [
            pytest.param({"layer_types": ["unheard_of"] * 32}, {}, id="a kind of layer that nobody knows"),
            pytest.param({"vision_config": {"hidden_size": 1024}}, {}, id="a model for pictures"),
            pytest.param({}, {"engine": {"args": ["--cpu-offload-gb=8"]}}, id="weights that are elsewhere"),
        ],
    )
    def test_only_a_certain_estimate_refuses(self, more, fields):
        cluster = a_cluster(replace(LLAMA, config=LLAMA.config | more), accelerator=SMALL, **fields)
        cluster.settle()
        assert cluster.condition("ModelFits") == ("Unknown", "NotEstimated")
        assert "That is not certain." in cluster.message("ModelFits")
        assert cluster.condition("Ready") == ("True", "Serving")

    @pytest.mark.parametrize(
        ("length", "way_out"),
        [
            pytest.param(32_000, "or set `--gpu-memory-utilization` to 0.93, or use", id="a share of memory"),
            pytest.param(60_000, "or set `model.kvCacheDtype` to fp8, or use", id="a smaller cache"),
        ],
    )
    def test_an_argument_that_is_enough_is_named(self, length, way_out):
        model = {"uri": "hf://a/b", "contextLength": length}
        assert way_out in settled(a_cluster(accelerator=SMALL, model=model)).message("ModelFits")

    def test_nothing_in_the_catalogue_may_hold_it(self):
        giant = replace(LLAMA, weights=replace(WEIGHTS, total=100 * 2**40))
        cluster = settled(a_cluster(giant, accelerator=SMALL))
        assert "Nothing in the catalogue holds it" in cluster.message("ModelFits")
        assert "no request fits" in cluster.message("ModelFits")

    def test_pictures_do_not_matter_where_the_weights_alone_are_too_large(self):
        config = LLAMA.config | {"vision_config": {"hidden_size": 1024}}
        giant = replace(LLAMA, config=config, weights=replace(WEIGHTS, total=40 * 2**30))
        assert settled(a_cluster(giant, accelerator=SMALL)).condition("ModelFits") == ("False", "DoesNotFit")

    def test_a_split_that_the_heads_do_not_allow_is_told_with_one_that_they_do(self):
        cluster = settled(a_cluster(accelerator={"type": "nvidia-h200", "count": 3}))
        assert "do not divide by 3" in cluster.message("ModelFits")
        assert "Use 4 x nvidia-t4" in cluster.message("ModelFits")


class TestAModelThatCannotBeSized:
    @pytest.mark.parametrize(
        ("fields", "answer", "reason", "words"),
        [
            pytest.param({}, NOT_READ, "ConfigUnreadable", "did not answer", id="a source that is away"),
            pytest.param(
                {"model": {"uri": "pvc://claim/llama"}},
                None,
                "ConfigUnreadable",
                "inside of a pod",
                id="a claim",
            ),
            pytest.param(
                {"accelerator": {"type": "nvidia-l41"}}, LLAMA, "UnknownAccelerator", "nvidia-l4", id="a typo"
            ),
            pytest.param(
                {},
                replace(LLAMA, config={"model_type": "bert"}),
                "NotEstimated",
                "config",
                id="a config that says nothing",
            ),
            pytest.param(
                {"engine": {"args": ["--max-num-seqs", "many"]}},
                LLAMA,
                "NotEstimated",
                "--max-num-seqs",
                id="arguments that the engine will refuse",
            ),
        ],
    )
    def test_goes_on_and_says_so(self, fields, answer, reason, words):
        cluster = settled(a_cluster(answer, **fields))
        assert cluster.condition("ModelFits") == ("Unknown", reason)
        assert words in cluster.message("ModelFits")
        assert cluster.condition("Ready") == ("True", "Serving")
        assert kstatus(cluster.service).status == CURRENT
        assert "capacity" not in cluster.status

    def test_is_read_again_as_long_as_it_may_help(self):
        assert settled(a_cluster(NOT_READ)).plans[-1].model_to_read is not None
        claim = a_cluster(None, model={"uri": "pvc://claim/llama"})
        assert settled(claim).plans[-1].model_to_read is None

    def test_is_measured_by_the_first_instance(self):
        cluster = settled(a_cluster(NOT_READ))
        says(cluster, MEASURED)
        cluster.settle()
        assert cluster.condition("ModelFits") == ("True", "Fits")
        assert cluster.status["capacity"]["source"] == "measured"
        assert cluster.status["capacity"]["requestsPerInstance"] == 1
        assert cluster.status["capacity"]["maxNumSeqs"] > 1

    def test_is_told_as_far_as_its_engine_tells_it(self):
        cluster = settled(a_cluster(NOT_READ))
        says(cluster, replace(MEASURED, max_concurrency=None, max_model_len=None))
        cluster.settle()
        assert cluster.condition("ModelFits") == ("True", "Fits")
        assert "200,000 tokens of KV cache" in cluster.message("ModelFits")
        assert "requestsPerInstance" not in cluster.status["capacity"]

    def test_an_invalid_spec_says_nothing_of_it(self):
        cluster = settled(a_cluster())
        cluster.edit(model={"uri": "ftp://x/y"})
        cluster.settle()
        assert cluster.condition("ModelFits") == ("Unknown", "InvalidSpec")

    def test_a_private_model_is_left_alone_when_secrets_may_not_be_read(self):
        cluster = a_cluster(None, model={"uri": "hf://x/y", "credentialsSecret": "token"})
        cluster.config = replace(cluster.config, read_credentials=False)
        cluster.settle()
        assert cluster.plans[-1].model_to_read is None
        assert cluster.condition("ModelFits") == ("Unknown", "ConfigUnreadable")
        assert "not allowed to read the Secret" in cluster.message("ModelFits")
        assert cluster.condition("Ready") == ("True", "Serving")


class TestTheMemory:
    def test_an_operator_that_starts_anew_reads_and_writes_nothing(self):
        cluster = settled(a_cluster())
        before = copy.deepcopy(cluster.status)
        cluster.answer = None
        plan = cluster.step()
        assert (plan.actions, plan.events, plan.model_to_read) == ((), (), None)
        assert plan.status == before

    def test_nor_does_it_for_a_model_that_was_refused(self):
        cluster = settled(a_cluster(accelerator=SMALL))
        before = copy.deepcopy(cluster.status)
        cluster.answer = None
        plan = cluster.step()
        assert (plan.actions, plan.model_to_read) == ((), None)
        assert plan.status == before

    def test_what_could_not_be_read_is_read_again_and_nothing_is_said_meanwhile(self):
        cluster = settled(a_cluster(NOT_READ))
        before = copy.deepcopy(cluster.status)
        cluster.answer = None
        plan = cluster.step()
        assert plan.status == before
        assert plan.model_to_read is not None

    def test_a_word_that_nobody_knows_is_not_repeated(self):
        cluster = settled(a_cluster(NOT_READ))
        find(cluster.status["conditions"], "ModelFits")["reason"] = "FromALaterRelease"
        cluster.answer = None
        cluster.step()
        assert cluster.condition("ModelFits") == ("Unknown", "ReadingConfig")

    def test_a_deleted_one_costs_one_more_reading_and_no_word(self):
        cluster = settled(a_cluster())
        before = copy.deepcopy(cluster.status)
        del cluster.children["ConfigMap", "chat-model-files"]
        cluster.answer = None
        plan = cluster.step()
        assert plan.model_to_read.revision == cluster.wanted
        assert plan.status == before
        cluster.answer = LLAMA
        assert kinds(cluster.step()) == ["ConfigMap"]

    def test_holds_what_is_remembered_and_no_more(self):
        cluster = settled(a_cluster(rollout={"historyLimit": 1}))
        for number in range(3):
            cluster.edit(engine={"args": ["--max-num-seqs", str(number + 1)]})
            cluster.settle()
            cluster.now += timedelta(minutes=1)
        cluster.settle()
        data = cluster.children["ConfigMap", "chat-model-files"]["data"]
        assert set(data) == {record["name"] for record in cluster.status["revisions"]}
        assert len(data) == 2

    def test_somebody_elses_config_map_of_its_name_is_left_alone(self):
        cluster = a_cluster()
        name = {"name": "chat-model-files", "namespace": "prod", "uid": "u"}
        theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": {"a": "b"}}
        cluster.children["ConfigMap", "chat-model-files"] = copy.deepcopy(theirs)
        for _ in range(5):
            cluster.step()
        assert cluster.children["ConfigMap", "chat-model-files"] == theirs
        assert cluster.condition("Ready") == ("True", "Serving")

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{}",
            "[]",
            "nonsense",
            '{"version": "", "weights": {"x": 1}, "config": {}}',
            json.dumps({"version": "", "weights": asdict(WEIGHTS) | {"total": "a lot"}, "config": {}}),
            json.dumps({"version": "", "weights": asdict(WEIGHTS) | {"more": 1}, "config": {}}),
        ],
    )
    def test_an_entry_that_somebody_spoilt_is_read_again(self, text):
        cluster = settled(a_cluster())
        cluster.children["ConfigMap", "chat-model-files"]["data"][cluster.wanted] = text
        cluster.answer = None
        assert cluster.step().model_to_read is not None
        cluster.answer = LLAMA
        cluster.settle()
        data = cluster.children["ConfigMap", "chat-model-files"]["data"]
        assert json.loads(data[cluster.wanted])["config"] == LLAMA.config

    def test_what_is_too_large_to_be_kept_is_still_known(self):
        cluster = settled(a_cluster(replace(LLAMA, config=LLAMA.config | {"more": "x" * 1_000_000})))
        assert ("ConfigMap", "chat-model-files") not in cluster.children
        assert cluster.condition("ModelFits") == ("True", "Fits")


class TestWhatEnginesMeasure:
    def test_takes_the_place_of_the_estimate(self):
        cluster = settled(a_cluster())
        assert cluster.status["capacity"]["source"] == "estimated"
        says(cluster, MEASURED)
        cluster.settle()
        capacity = cluster.status["capacity"]
        assert capacity["source"] == "measured"
        assert capacity["revision"] == cluster.wanted
        assert capacity["requestsPerInstance"] == 1
        assert capacity["contextLength"] == 131_072
        assert capacity["kvCacheTokens"] == 200_000
        assert 0.5 < capacity["measuredToEstimated"] < 2
        assert cluster.message("ModelFits") == "1 request of 131,072 tokens at once, as measured"

    def test_is_above_an_estimate_that_says_no(self):
        cluster = settled(a_cluster(accelerator=SMALL, answer=NOT_READ))
        says(cluster, MEASURED)
        cluster.answer = LLAMA
        cluster.settle()
        assert cluster.condition("ModelFits") == ("True", "Fits")

    def test_outlives_the_operator_and_the_order_in_which_instances_answer(self):
        cluster = settled(a_cluster(replicas=3))
        revision = only(cluster.deployments)
        tokens = dict(zip(sorted(cluster.reports), (200_016, 200_000, 200_032), strict=True))
        for pod, count in tokens.items():
            cluster.reports[pod] = a_report(revision, capacity=replace(MEASURED, kv_cache_tokens=count))
        cluster.settle()
        before, message = cluster.status["capacity"], cluster.message("ModelFits")
        assert before["kvCacheTokens"] == 200_000
        reports = dict(cluster.reports)
        cluster.reports = {}
        for pod in [*reports, None]:
            cluster.step()
            assert cluster.status["capacity"] == before
            assert cluster.message("ModelFits") == message
            if pod:
                cluster.reports[pod] = reports[pod]

    def test_follows_what_all_instances_say_now(self):
        cluster = settled(a_cluster())
        says(cluster, MEASURED)
        cluster.settle()
        says(cluster, replace(MEASURED, kv_cache_tokens=210_000))
        cluster.settle()
        assert cluster.status["capacity"]["kvCacheTokens"] == 210_000

    def test_corrects_the_next_estimate_from_the_same_inputs(self):
        first = settled(a_cluster())
        says(first, MEASURED)
        first.settle()
        correction = only(plan.correction for plan in first.plans if plan.correction)
        assert correction.ratio == first.status["capacity"]["measuredToEstimated"]
        model = first.service["spec"]["model"] | {"contextLength": 65_536}
        second = a_cluster(model=model)
        second.corrections = {correction.key: correction.ratio}
        second.settle()
        capacity = second.status["capacity"]
        assert (capacity["source"], capacity["measuredToEstimated"]) == ("estimated", correction.ratio)
        assert capacity["kvCacheTokens"] == pytest.approx(200_000, rel=0.01)
        assert f"x {correction.ratio:.3f} as measured" in capacity["arithmetic"]

    def test_is_remembered_once(self):
        cluster = settled(a_cluster())
        says(cluster, MEASURED)
        for _ in range(5):
            cluster.step()
        assert len([plan for plan in cluster.plans if plan.correction]) == 1

    def test_of_other_inputs_corrects_nothing(self):
        first, second = settled(a_cluster()), a_cluster(engine={"args": ["--max-num-seqs", "8"]})
        says(first, MEASURED)
        first.settle()
        correction = only(plan.correction for plan in first.plans if plan.correction)
        second.corrections = {correction.key: 0.5}
        second.settle()
        assert "measuredToEstimated" not in second.status["capacity"]

    def test_of_the_old_revision_stays_until_the_new_one_serves(self):
        cluster = settled(a_cluster())
        old = only(cluster.deployments)
        says(cluster, MEASURED)
        cluster.settle()
        cluster.edit(engine={"args": ["--max-num-seqs", "8"]})
        cluster.never_ready.add(cluster.wanted)
        cluster.settle()
        assert cluster.status["capacity"]["revision"] == old
        assert cluster.status["capacity"]["source"] == "measured"

    def test_is_something_that_the_api_declares(self):
        cluster = settled(a_cluster())
        says(cluster, MEASURED)
        cluster.settle()
        status = InferenceService.model_validate(cluster.service).status
        assert json.loads(status.model_dump_json(by_alias=True, exclude_unset=True)) == cluster.status


@settings(max_examples=40)
@given(st.lists(st.sampled_from([None, NOT_READ, LLAMA, replace(LLAMA, config={})]), max_size=8))
def test_whatever_is_found_out_later_no_instance_leaves_for_it(answers):
    cluster = settled(a_cluster(NOT_READ, accelerator=SMALL, replicas=2))
    pods = dict(cluster.pods)
    for answer in answers:
        cluster.answer = answer
        cluster.step()
        assert cluster.pods == pods
        assert cluster.condition("Ready") == ("True", "Serving")


@settings(max_examples=60)
@given(
    st.sampled_from(NAMES),
    st.lists(
        st.tuples(
            st.integers(min_value=0, max_value=40),
            st.sampled_from([0, -1, 1, 3, 10**18, 1.5, 1e300, "", "x", None, True, [], {}, [1, 2]]),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["nvidia-l4", "nvidia-h100-80gb-mig-1g.10gb", "amd-mi300x", "cpu"]),
    st.sampled_from([[], ["-tp", "3"], ["-pp", "2"], ["--max-model-len", "auto"]]),
)
def test_whatever_a_config_says_the_service_gets_an_answer(name, changes, accelerator, args):
    changed = config(name)
    for index, value in changes:
        changed[sorted(changed)[index % len(changed)]] = value
    facts = ModelFacts(version="", config=changed, weights=None)
    cluster = a_cluster(facts, accelerator={"type": accelerator}, engine={"args": args})
    cluster.step()
    assert cluster.condition("ModelFits")[1] in ("Fits", "DoesNotFit", "NotEstimated")
