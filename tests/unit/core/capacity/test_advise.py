from dataclasses import replace

import pytest
from tests.unit.core.capacity.real_models import model as real_model
from tests.unit.core.capacity.test_offer import LLAMA_8B, load, wanted

from stoker.core.capacity.advise import advise
from stoker.core.capacity.catalog import ACCELERATORS, Price
from stoker.core.capacity.engine_settings import engine_settings
from stoker.core.capacity.form import read_form


def settings_for(accelerator, count):
    arguments = ["--max-model-len", "8192", "--tensor-parallel-size", str(count)]
    return engine_settings(arguments, accelerator=accelerator)


def advice(want, *names, form=None, prices=None):
    kinds = [
        replace(ACCELERATORS[name], price=price and Price(per_hour=price, currency="", as_of="", source=""))
        if prices is not None and (price := prices[name]) is not ...
        else ACCELERATORS[name]
        for name in names
    ]
    return advise(want, accelerators=kinds, settings_for=settings_for, form=form)


def test_the_cheapest_that_holds_it_comes_first():
    found = advice(wanted(load=load(50.0)), "nvidia-l4", "nvidia-l40s", "nvidia-h100-80gb")
    costs = [choice.offer.cost.per_hour.likely for choice in found.choices]
    assert costs == sorted(costs)
    assert {choice.accelerator.name for choice in found.choices} == {
        "nvidia-l4",
        "nvidia-l40s",
        "nvidia-h100-80gb",
    }


def test_the_same_money_is_better_spent_on_fewer_accelerators():
    prices = {"nvidia-h100-80gb": 2.0, "nvidia-l40s": 1.0}
    found = advice(wanted(), "nvidia-l40s", "nvidia-h100-80gb", prices=prices)
    two_dollars = [choice for choice in found.choices if choice.offer.cost.per_hour.likely == 2.0]
    counts = [choice.count for choice in two_dollars]
    assert counts == sorted(counts)
    assert set(counts) == {1, 2}


def test_what_has_no_price_comes_last_and_costs_nothing_known():
    prices = {"nvidia-h100-80gb": None, "nvidia-l40s": 100.0}
    found = advice(wanted(), "nvidia-h100-80gb", "nvidia-l40s", prices=prices)
    names = [choice.accelerator.name for choice in found.choices]
    assert names == sorted(names, reverse=True), "l40s before h100"
    assert all(c.offer.cost is None for c in found.choices if c.accelerator.name == "nvidia-h100-80gb")


def test_accelerators_are_taken_alone_and_in_the_groups_that_a_node_holds():
    found = advice(wanted(), "nvidia-gh200-96gb", "nvidia-l4", "cpu")
    compared = {(row.accelerator.name, row.count) for row in (*found.choices, *found.rejected)}
    assert compared == {
        ("nvidia-gh200-96gb", 1),
        ("cpu", 1),
        *(("nvidia-l4", count) for count in (1, 2, 4, 8)),
    }


def test_what_does_not_hold_it_says_why():
    found = advice(wanted(model=real_model("meta-llama--Meta-Llama-3.1-405B")), "nvidia-l4")
    assert found.choices == ()
    assert all("GiB too little" in row.reason for row in found.rejected)


def test_what_is_slower_than_wanted_says_so():
    found = advice(wanted(inter_token_s=0.05), "cpu")
    assert found.choices == ()
    assert all(row.reason.startswith("too slow") for row in found.rejected)


def test_arguments_that_an_accelerator_cannot_have_are_its_reason():
    def many(accelerator, count):
        return engine_settings(["--max-num-seqs", "4096"], accelerator=accelerator)

    found = advise(wanted(), accelerators=[ACCELERATORS["nvidia-l4"]], settings_for=many, form=None)
    assert found.choices == ()
    assert all("--max-num-batched-tokens" in row.reason for row in found.rejected)


@pytest.mark.parametrize(
    ("argument", "forms"),
    [
        pytest.param(None, {None, "fp8", "awq"}, id="all that the accelerator computes in"),
        pytest.param("fp8", {"fp8"}, id="only the one that was asked for"),
    ],
)
def test_forms_of_the_weights_are_compared(argument, forms):
    form = read_form(LLAMA_8B, argument) if argument else None
    found = advice(wanted(), "nvidia-h100-80gb", form=form)
    assert {choice.form.argument for choice in found.choices} == forms
