import pytest

from stoker.core.capacity.given_arguments import GivenArguments, given_arguments, whole_number
from stoker.core.model import Refusal


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--max-num-seqs", "64"], id="two words"),
        pytest.param(["--max-num-seqs=64"], id="one word"),
        pytest.param(["--max_num_seqs", "64"], id="underscores"),
        pytest.param(["--max-num-seqs", "8", "--max-num-seqs", "64"], id="the last one counts"),
        pytest.param(
            ["--model", "/weights", "--trust-remote-code", "--max-num-seqs", "64"], id="among others"
        ),
    ],
)
def test_an_argument_in_every_spelling(words):
    assert given_arguments(words) == GivenArguments(values={"--max-num-seqs": "64"})


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        pytest.param(["-tp", "2"], "--tensor-parallel-size", "2", id="a short form"),
        pytest.param(["-pp=2"], "--pipeline-parallel-size", "2", id="a short form in one word"),
        pytest.param(
            ["--device_memory_utilization", ".5"], "--gpu-memory-utilization", ".5", id="another name"
        ),
        pytest.param(["--max-model-len", "-1"], "--max-model-len", "-1", id="a negative number is a value"),
    ],
)
def test_other_names(words, name, value):
    assert given_arguments(words) == GivenArguments(values={name: value})


@pytest.mark.parametrize(
    ("words", "on"),
    [
        pytest.param(["--enable-expert-parallel"], True, id="on"),
        pytest.param(["--no-enable-expert-parallel"], False, id="off"),
        pytest.param(["-ep"], True, id="by its short form"),
        pytest.param(["--enable_expert_parallel"], True, id="with underscores"),
    ],
)
def test_a_switch(words, on):
    assert given_arguments(words) == GivenArguments(switches={"--enable-expert-parallel": on})


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(
            ["--speculative-config", '{"method": "eagle", "num_speculative_tokens": "3"}'], id="JSON"
        ),
        pytest.param(["-sc", '{"method": "eagle", "num_speculative_tokens": "3"}'], id="short"),
        pytest.param(
            ["--speculative_config.method=eagle", "--speculative-config.num_speculative_tokens", "3"],
            id="by key",
        ),
        pytest.param(["--spec-method", "eagle", "--spec-tokens", "3"], id="arguments of their own"),
    ],
)
def test_a_drafter_in_every_spelling(words):
    assert given_arguments(words) == GivenArguments(
        speculative={"method": "eagle", "num_speculative_tokens": "3"}
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["--max-num-seqs"],
            "`engine.args`: --max-num-seqs has no value; give one or remove it",
            id="at the end",
        ),
        pytest.param(
            ["--max-num-seqs", "--enforce-eager"],
            "`engine.args`: --max-num-seqs has no value; give one or remove it",
            id="before another",
        ),
        pytest.param(
            ["-sc", "eagle"],
            '`engine.args`: --speculative-config is not a JSON object; give one such as {"method": "ngram"}',
            id="no JSON",
        ),
        pytest.param(
            ["-sc", "[]"],
            '`engine.args`: --speculative-config is not a JSON object; give one such as {"method": "ngram"}',
            id="another JSON",
        ),
    ],
)
def test_what_can_not_be_read_is_refused(words, message):
    refusal = given_arguments(words)
    assert isinstance(refusal, Refusal)
    assert refusal.message == message


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param("64", 64, id="plain"),
        pytest.param("32k", 32_000, id="thousands"),
        pytest.param("32K", 32_768, id="powers of two"),
        pytest.param("25.6k", 25_600, id="a fraction of thousands"),
        pytest.param(" 1g ", 10**9, id="blanks around"),
    ],
)
def test_numbers_for_people(text, number):
    assert whole_number({"--max-model-len": text}, "--max-model-len", most=10**9) == number


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        pytest.param("--max-model-len", "0", "is 0; give a number from 1 to 1,000", id="zero"),
        pytest.param("--max-model-len", "-4", "is -4; give a number from 1 to 1,000", id="negative"),
        pytest.param("--max-model-len", "2k", "is 2k; give a number from 1 to 1,000", id="absurd"),
        pytest.param(
            "--max-model-len", "many", "is `many`, which is not a whole number; give one such as 64 or 32k",
            id="a word",
        ),
        pytest.param(
            "--max-model-len", "1.5K", "is `1.5K`, which is not a whole number; give one such as 64 or 32k",
            id="a fraction of a power of two",
        ),
        pytest.param(
            "--max-num-seqs", "1k", "is `1k`, which is not a whole number; give one such as 64",
            id="a suffix where vLLM takes none",
        ),
        pytest.param(
            "--max-num-seqs", "1.5", "is `1.5`, which is not a whole number; give one such as 64",
            id="a fraction",
        ),
    ],
)  # fmt: skip
def test_what_is_no_number_is_refused(name, text, problem):
    refusal = whole_number({name: text}, name, most=1000)
    assert isinstance(refusal, Refusal)
    assert refusal.message == f"`engine.args`: {name} {problem}"


def test_what_is_not_given_is_none():
    assert whole_number({}, "--max-num-seqs", most=1000) is None
