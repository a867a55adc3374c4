from pathlib import Path

import click
import pytest

from stoker.cli.plan.options import DEFAULT_OBJECTIVE, Options
from stoker.core.capacity.load import Load, RequestShape
from stoker.core.capacity.queueing import Objective

UNSET = dict.fromkeys(Options.__dataclass_fields__)
GOOD = {
    **UNSET,
    "model": "m",
    "accelerator": "nvidia-l40s",
    "advise": False,
    "prices": (),
    "manifest": False,
    "output_format": "table",
}
LOAD = {"load": 5.0, "prompt": 1000, "output": 250}


def typed(**given):
    return Options(**{**GOOD, **given})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        pytest.param(
            {"count": 0},
            "--count 0 is not between 1 and 16; give a number in that range.",
            id="no accelerator at all",
        ),
        pytest.param({"count": -2}, "--count -2 is not between 1 and 16", id="a negative number"),
        pytest.param({"count": 17}, "--count 17 is not between", id="more than a node holds"),
        pytest.param({"context": 0}, "--context 0 is not between 1 and 100,000,000", id="no context"),
        pytest.param({"context": 10**12}, "--context 1000000000000 is not", id="an absurd context"),
        pytest.param({"max_num_seqs": 0}, "--max-num-seqs 0 is not between 1 and 100,000", id="no requests"),
        pytest.param({**LOAD, "prompt": 0}, "--prompt 0 is not", id="an empty prompt"),
        pytest.param({**LOAD, "output": -1}, "--output -1 is not", id="less than no answer"),
        pytest.param({**LOAD, "load": 0.0}, "--load 0 is not a number of requests per second", id="no load"),
        pytest.param({**LOAD, "load": -3.0}, "--load -3 is not", id="a negative load"),
        pytest.param({**LOAD, "load": float("nan")}, "--load nan is not", id="a load that is no number"),
        pytest.param({**LOAD, "load": float("inf")}, "--load inf is not", id="an endless load"),
        pytest.param(
            {"load": 5.0},
            "--load needs the length of a typical request; give --prompt and --output too.",
            id="a load of requests of unknown length",
        ),
        pytest.param({"prompt": 100}, "give --output too", id="a prompt without an answer"),
        pytest.param({"output": 100}, "give --prompt too", id="an answer without a prompt"),
        pytest.param({"objective": "2s@99"}, "--objective is about a load", id="an objective for no load"),
        pytest.param({"model": None}, "Nothing says which model; give --model, or -f", id="no model"),
        pytest.param({"accelerator": None}, "give --accelerator, or --advise", id="no accelerator named"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(given, sentence):
    with pytest.raises(click.UsageError) as refused:
        typed(**given).check()
    assert sentence in refused.value.message


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="model and accelerator"),
        pytest.param(LOAD, id="with a load"),
        pytest.param({"prompt": 10, "output": 10}, id="with a typical request and no load"),
        pytest.param({"accelerator": None, "advise": True}, id="advice needs no accelerator"),
        pytest.param(
            {"model": None, "accelerator": None, "service_file": Path("x")}, id="a service says both"
        ),
    ],
)
def test_what_makes_sense_is_taken(given):
    typed(**given).check()


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        pytest.param(None, DEFAULT_OBJECTIVE, id="none: that of the service"),
        pytest.param("500ms@90", Objective(within_s=0.5, percent=90), id="another one"),
    ],
)
def test_a_load_has_an_objective(objective, expected):
    load = typed(**LOAD, objective=objective).wanted_load(otherwise=DEFAULT_OBJECTIVE)
    assert load == Load(
        requests_per_s=5.0, shape=RequestShape(prompt_tokens=1000, output_tokens=250), objective=expected
    )


def test_a_bad_objective_is_refused_by_its_text():
    with pytest.raises(click.UsageError, match=r"--objective: the objective 'soon' is not TIME@PERCENT"):
        typed(**LOAD, objective="soon").wanted_load(otherwise=DEFAULT_OBJECTIVE)


def test_prices_are_by_accelerator():
    options = typed(prices=("nvidia-l40s=1.20", "amd-mi300x=2"))
    assert options.own_prices() == {"nvidia-l40s": 1.2, "amd-mi300x": 2.0}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("nvidia-l40s", id="no price"),
        pytest.param("=2", id="no name"),
        pytest.param("nvidia-l40s=cheap", id="a price that is no number"),
        pytest.param("nvidia-l40s=0", id="for free"),
        pytest.param("nvidia-l40s=-1", id="a negative price"),
        pytest.param("nvidia-l40s=nan", id="not a number"),
        pytest.param("nvidia-l40s=inf", id="without end"),
    ],
)
def test_a_bad_price_is_refused_with_its_text(text):
    with pytest.raises(click.UsageError, match=r"--price .* is not NAME=PRICE") as refused:
        typed(prices=(text,)).own_prices()
    assert text in refused.value.message
