import json

import pytest
from e2e.stand_in_engine import faults
from e2e.stand_in_engine.faults import BadFaults, Crash, Faults, Share
from hypothesis import given
from hypothesis import strategies as st


def test_the_example_of_the_docstring():
    assert faults.parse('{"stall_after_tokens": 10}') == Faults(stall_after_tokens=10)


def test_a_document_that_was_read_can_be_read_again():
    active = Faults(crash_after_tokens=3, crash=Crash.MEMORY, error_share=0.5, start_delay_s=1.5)
    assert faults.parse(json.dumps(faults.as_json(active))) == active


@pytest.mark.parametrize(
    ("document", "words"),
    [
        pytest.param("{", "is no JSON", id="no JSON"),
        pytest.param("[]", r"must be a JSON object, not \[\]", id="no object"),
        pytest.param('{"hangs": true}', "no such fault: hangs; there are start_delay_s", id="unknown name"),
        pytest.param('{"hang": 1}', "hang cannot be 1: it takes true or false", id="number for a switch"),
        pytest.param('{"error_share": 2}', "it takes a number from 0 to 1", id="share above one"),
        pytest.param('{"slow_factor": -1}', "it takes a number from 0 on", id="negative factor"),
        pytest.param(
            '{"stall_after_tokens": 1.5}', "it takes a whole number from 0 on", id="part of a token"
        ),
        pytest.param('{"crash": "boom"}', "it takes one of engine_dead, exit", id="unknown crash"),
        pytest.param('{"crash": null}', "crash cannot be null", id="no crash"),
    ],
)
def test_a_wrong_document_says_what_to_change(document, words):
    with pytest.raises(BadFaults, match=words):
        faults.parse(document)


@given(share=st.floats(0, 1), requests=st.integers(1, 200))
def test_a_share_is_met_to_within_one_request(share, requests):
    counter = Share()
    hits = sum(counter.hit(share) for _ in range(requests))
    assert abs(hits - share * requests) <= 1
