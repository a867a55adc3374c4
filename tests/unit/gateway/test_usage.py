import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.gateway.usage import Usage, UsageSearch, read_usage


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        pytest.param({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}, (7, 0, 3), id="chat"),
        pytest.param({"prompt_tokens": 7, "total_tokens": 7}, (7, 0, 0), id="embeddings"),
        pytest.param(
            {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}},
            (7, 5, 3),
            id="with a cached prefix",
        ),
        pytest.param(
            {"prompt_tokens": 7, "prompt_tokens_details": None}, (7, 0, 0), id="details that are null"
        ),
        pytest.param(
            {"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 2}},
            (7, 2, 3),
            id="responses",
        ),
        pytest.param({"prompt_tokens": "7", "completion_tokens": -1}, (0, 0, 0), id="figures that are none"),
    ],
)
def test_figures_of_all_kinds_of_answers(figures, expected):
    usage = read_usage(json.dumps({"usage": figures, "more": 1}).encode())
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == expected


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"usage":null}', id="null"),
        pytest.param(b'{"usage":{"prompt_tokens":', id="cut off"),
        pytest.param(b'{"usage":' + b'{"a":' * 4000, id="nested without end"),
        pytest.param(json.dumps({"text": '"usage":{"prompt_tokens":1}'}).encode(), id="in a text"),
    ],
)
def test_what_has_no_figures(data):
    assert read_usage(data) is None


@given(st.lists(st.integers(0, 3000), max_size=12), st.integers(0, 2500))
def test_figures_are_found_wherever_the_answer_is_cut(at, behind):
    data = json.dumps(
        {"usage": {"prompt_tokens": 1}, "x": "y" * 300, "a": {"usage": {"prompt_tokens": 7}}}
    ).encode()
    data += b" " * behind
    edges = [0, *sorted(a for a in at if a < len(data)), len(data)]
    search = UsageSearch()
    for start, end in itertools.pairwise(edges):
        search.feed(data[start:end])
    assert search.result() == Usage(prompt_tokens=7, cached_tokens=0, completion_tokens=0)
