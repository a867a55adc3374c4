from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.capacity import models as m
from tests.unit.core.capacity.real_models import model as real_model

from stoker.core.capacity.catalog import ACCELERATORS, Price
from stoker.core.capacity.form import Form, read_form
from stoker.core.capacity.load import Load, RequestShape
from stoker.core.capacity.offer import Offer, Wanted, offer, problem
from stoker.core.capacity.queueing import Objective
from stoker.core.capacity.weights import StoredWeights

LLAMA_8B = real_model("meta-llama--Meta-Llama-3.1-8B")
SHAPE = RequestShape(prompt_tokens=1000, output_tokens=250)
TWO_DOLLARS = Price(per_hour=2.0, currency="USD", as_of="2026-11-01", source="a list")
H100 = replace(ACCELERATORS["nvidia-h100-80gb"], price=TWO_DOLLARS)
L4 = ACCELERATORS["nvidia-l4"]
AS_STORED = Form(argument=None, quantization=None)


def load(requests_per_s=5.0):
    objective = Objective(within_s=2.0, percent=99.0)
    return Load(requests_per_s=requests_per_s, shape=SHAPE, objective=objective)


def wanted(**changes):
    fields = {"model": LLAMA_8B, "stored": None, "shape": SHAPE, "load": None}
    return Wanted(**(fields | changes))


def made(want, *, on=H100, form=AS_STORED, **engine) -> Offer:
    return offer(want, accelerator=on, settings=m.settings(**engine), form=form)


def test_an_instance_works_on_as_many_requests_as_its_engine_takes():
    offered = made(wanted())
    assert offered.slots == offered.held == 256
    assert offered.full.concurrency == 256
    assert offered.alone.concurrency == 1
    assert offered.staffing is None
    assert offered.at_load is None


def test_memory_may_hold_fewer():
    offered = made(wanted(), on=L4, max_model_len=8192)
    assert 0 < offered.slots < 256
    assert offered.slots == offered.estimate.requests_at(SHAPE.tokens)


def test_and_so_may_the_user():
    assert made(wanted(most_requests=10)).slots == 10


def test_slots_that_would_make_tokens_too_slow_stay_empty():
    limit_s = 0.02
    offered = made(wanted(inter_token_s=limit_s))
    assert 0 < offered.slots < offered.held
    assert offered.full.throughput.inter_token_latency_s.likely <= limit_s
    assert problem(offered, wanted(inter_token_s=limit_s)) is None


def test_hardware_that_is_too_slow_for_one_request_says_so():
    want = wanted(inter_token_s=0.001)
    offered = made(want)
    assert (offered.slots, offered.full, offered.cost) == (0, None, None)
    assert "too slow" in problem(offered, want)
    assert "0.001 s" in problem(offered, want)


def test_what_does_not_fit_has_neither_speed_nor_cost():
    want = wanted(load=load())
    offered = made(want, on=L4)
    assert not offered.estimate.fits
    assert (offered.alone, offered.full, offered.at_load) == (None, None, None)
    assert (offered.staffing, offered.cost) == (None, None)
    assert "one request of 131,072 tokens needs 16.0 GiB" in problem(offered, want)
    assert f"{offered.estimate.max_context_length:,} tokens would fit" in problem(offered, want)


def test_weights_that_do_not_fit_say_how_much_is_missing():
    want = wanted(model=real_model("meta-llama--Meta-Llama-3.1-70B"))
    sentence = problem(made(want, on=L4), want)
    assert "GiB too little for weights" in sentence


def test_an_engine_that_would_refuse_gives_its_own_reason():
    want = wanted()
    sentence = problem(made(want, tensor_parallel=3), want)
    assert "attention heads" in sentence
    assert not sentence.endswith(".")


def test_the_batch_at_the_load_makes_just_enough_tokens():
    offered = made(wanted(load=load()))
    share = load().output_tokens_per_s / offered.staffing.replicas.likely
    assert offered.at_load.throughput.output_tokens_per_s.likely >= share
    fewer = made(wanted(load=load(), most_requests=offered.at_load.concurrency - 1))
    assert fewer.full.throughput.output_tokens_per_s.likely < share


def test_a_load_of_next_to_nothing_keeps_one_request_at_work():
    assert made(wanted(load=load(0.001))).at_load.concurrency == 1


def test_more_replicas_than_are_allowed_are_a_problem():
    want = wanted(load=load(500.0), max_replicas=2)
    offered = made(want)
    assert problem(offered, want) == (
        f"the load needs {offered.staffing.replicas.likely} replicas, and `scaling.maxReplicas` is 2"
    )
    assert problem(offered, replace(want, max_replicas=1000)) is None


def test_cost_without_a_load_is_that_of_a_busy_instance():
    offered = made(wanted(), tensor_parallel=2)
    assert offered.cost.per_hour.likely == 4.0
    speed = offered.full.throughput.output_tokens_per_s
    per_million = offered.cost.per_million_output_tokens
    assert per_million.likely == pytest.approx(4.0 / (speed.likely * 3600) * 1e6)
    assert per_million.low == pytest.approx(4.0 / (speed.high * 3600) * 1e6)


def test_cost_at_a_load_is_that_of_all_replicas_over_its_tokens():
    offered = made(wanted(load=load(100.0)))
    replicas = offered.staffing.replicas
    assert offered.cost.per_hour.high == replicas.high * 2.0
    an_hour = 100.0 * 250 * 3600
    assert offered.cost.per_million_output_tokens.low == pytest.approx(replicas.low * 2.0 / an_hour * 1e6)


def test_no_price_is_no_cost():
    assert made(wanted(load=load()), on=replace(H100, price=None)).cost is None


def test_fp8_is_smaller_and_faster():
    plain = made(wanted())
    fp8 = made(wanted(), form=read_form(LLAMA_8B, "fp8"))
    assert fp8.weights.total < plain.weights.total
    assert fp8.alone.throughput.output_tokens_per_s.likely > plain.alone.throughput.output_tokens_per_s.likely


def test_a_form_of_another_checkpoint_is_not_weighed_by_these_files():
    stored = StoredWeights(total_bytes=16_000_000_000, tensors=None)
    awq = made(wanted(stored=stored), form=read_form(LLAMA_8B, "awq"))
    assert awq.weights.basis == "config"
    assert awq.weights.total < 8_000_000_000
    assert made(wanted(stored=stored)).weights.basis == "files"


@settings(max_examples=20)
@given(requests_per_s=st.floats(0.1, 200), more=st.floats(1, 4))
def test_more_load_never_costs_less(requests_per_s, more):
    less, most = (made(wanted(load=load(rate))) for rate in (requests_per_s, requests_per_s * more))
    assert less.cost.per_hour.likely <= most.cost.per_hour.likely
