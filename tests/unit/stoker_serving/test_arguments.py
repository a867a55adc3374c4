import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_serving.arguments import Known, added_to, check, value_of
from stoker_serving.termination import Fatal, Reason

KNOWN = Known(
    engine="vLLM 0.32.0",
    flags={
        "--model": (),
        "--max-model-len": (),
        "--max-num-seqs": (),
        "--served-model-name": (),
        "--enforce-eager": (),
        "--no-enforce-eager": (),
        "--compilation-config": (),
        "-cc": (),
        "--dtype": ("auto", "bfloat16", "float16"),
        "-tp": (),
        "--tensor-parallel-size": (),
        "-O": (),
    },
)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="nothing"),
        pytest.param(["--model", "/weights/model", "--enforce-eager"], id="a value and a switch"),
        pytest.param(["--max_model_len", "100"], id="underscores stand for dashes"),
        pytest.param(["--max-model-len=100"], id="flag and value in one word"),
        pytest.param(["--tensor-par", "2"], id="the unique beginning of a flag"),
        pytest.param(["--compilation-config.mode", "3"], id="one key of a JSON flag"),
        pytest.param(["-cc.mode=3"], id="one key of a short JSON flag"),
        pytest.param(["-tp", "4"], id="a short flag"),
        pytest.param(["-tp4"], id="a short flag with its value"),
        pytest.param(["-O3"], id="a level"),
        pytest.param(["--max-num-seqs", "-1"], id="a negative number is a value"),
        pytest.param(["--dtype", "float16"], id="a value from the list"),
        pytest.param(["--dtype=float16"], id="a value from the list in one word"),
    ],
)
def test_takes_what_the_engine_takes(arguments):
    check(arguments, KNOWN)


@pytest.mark.parametrize(
    ("arguments", "message", "fix"),
    [
        pytest.param(
            ["--max-modle-len", "100"],
            "vLLM 0.32.0 has no argument --max-modle-len.",
            "Did you mean --max-model-len?",
            id="a typo",
        ),
        pytest.param(
            ["--max_modle_len=100"],
            "vLLM 0.32.0 has no argument --max-modle-len.",
            "Did you mean --max-model-len?",
            id="a typo with underscores, in one word",
        ),
        pytest.param(
            ["--max", "100"],
            "vLLM 0.32.0 has no argument --max.",
            "Correct `engine.args`",
            id="a beginning of several flags",
        ),
        pytest.param(
            ["--compilation-confg.mode", "3"],
            "vLLM 0.32.0 has no argument --compilation-confg.mode.",
            "Did you mean --compilation-config?",
            id="a typo before the dot",
        ),
        pytest.param(
            ["--dtype", "float61"],
            "vLLM 0.32.0 does not take 'float61' for --dtype; it takes auto, bfloat16, float16.",
            "Did you mean float16?",
            id="a value that is not in the list",
        ),
        pytest.param(
            ["--dtype"],
            "vLLM 0.32.0 does not take '' for --dtype; it takes auto, bfloat16, float16.",
            "Correct `engine.args`",
            id="no value at all",
        ),
    ],
)
def test_says_what_is_wrong_and_what_is_near(arguments, message, fix):
    with pytest.raises(Fatal) as caught:
        check(["--model", "m", *arguments], KNOWN)
    assert caught.value.failure.reason is Reason.BAD_ARGUMENTS
    assert caught.value.failure.message == message
    assert fix in caught.value.failure.fix


@given(st.lists(st.text(alphabet="-_=.abmodel 3")))
def test_any_words_are_either_taken_or_refused_with_a_sentence(arguments):
    assert all(words.startswith("vLLM 0.32.0 ") for words in refusals(arguments))


def refusals(arguments):
    try:
        check(arguments, KNOWN)
    except Fatal as fatal:
        return [fatal.failure.message]
    return []


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        pytest.param(["--port", "8000"], [], id="not there"),
        pytest.param(["--served-model-name", "a", "b", "--port", "1"], ["a", "b"], id="several values"),
        pytest.param(["--served_model_name=a"], ["a"], id="one word, underscores"),
        pytest.param(["--served-model-name", "a", "--served-model-name", "b"], ["b"], id="the last one wins"),
        pytest.param(["--served-model-name"], [], id="no value"),
    ],
)
def test_value_of_a_flag(arguments, values):
    assert value_of(arguments, "--served-model-name") == values


def test_reads_the_list_of_the_image(tmp_path):
    path = tmp_path / "arguments.json"
    path.write_text(json.dumps({"engine": "vLLM 1", "flags": {"--dtype": ["auto"]}}))
    assert Known.load(path) == Known(engine="vLLM 1", flags={"--dtype": ("auto",)})


QUIET = Known(engine="vLLM 1", flags={"--disable-access-log-for-endpoints": ()})


@pytest.mark.parametrize(
    ("arguments", "known", "quiet"),
    [
        pytest.param([], None, [], id="nothing known about the engine"),
        pytest.param([], KNOWN, [], id="an engine without the flag"),
        pytest.param(
            [],
            QUIET,
            ["--disable-access-log-for-endpoints", "/health,/metrics"],
            id="our questions make no lines",
        ),
        pytest.param(["--disable-access-log-for-endpoints", "/x"], QUIET, [], id="the user's word counts"),
    ],
)
def test_what_the_supervisor_adds(arguments, known, quiet):
    assert added_to(arguments, known) == ["--middleware", "stoker_serving.middleware.Admission", *quiet]
