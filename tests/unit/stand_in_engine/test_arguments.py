import json

import pytest
from e2e.stand_in_engine import arguments

from stoker_serving.arguments import Known, check
from stoker_serving.engine_arguments import describe
from stoker_serving.termination import Fatal


def test_what_an_operator_gives_is_understood():
    line = (
        "--model /weights/model --served-model-name chat chat-latest --host 0.0.0.0 --port 8000 "
        "--tensor-parallel-size 2 --max-model-len 8K --quantization fp8 --kv-cache-dtype fp8 "
        "--performance-mode interactivity --enable-lora --lora-modules poet=/weights/adapters/poet "
        "--middleware stoker_serving.middleware.Admission"
    )
    given = arguments.parse(line.split())
    assert given.served_model_name == ["chat", "chat-latest"]
    assert given.max_model_len == 8192
    assert given.lora_modules == {"poet": "/weights/adapters/poet"}
    assert given.middleware == ["stoker_serving.middleware.Admission"]


@pytest.mark.parametrize(
    ("words", "field", "expected"),
    [
        pytest.param(["--max_num_seqs", "8"], "max_num_seqs", 8, id="underscores for dashes"),
        pytest.param(["--max-num-seqs=8"], "max_num_seqs", 8, id="value in the same word"),
        pytest.param(["--max-model-len", "8k"], "max_model_len", 8000, id="k is a thousand"),
        pytest.param(["--max-model-len", "1.5k"], "max_model_len", 1500, id="part of a thousand"),
        pytest.param(["--max-model-len", "auto"], "max_model_len", None, id="auto leaves it to the model"),
        pytest.param(["--no-enable-prefix-caching"], "enable_prefix_caching", False, id="switched off"),
        pytest.param(["/weights"], "model", "/weights", id="model as the first word"),
        pytest.param([], "served_model_name", ["Qwen/Qwen3-0.6B"], id="served under its path"),
        pytest.param(
            ["--lora-modules", '{"name": "poet", "path": "/p"}'], "lora_modules", {"poet": "/p"}, id="JSON"
        ),
    ],
)
def test_it_reads_arguments_as_vllm_does(words, field, expected):
    assert getattr(arguments.parse(words), field) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["--max-model-lenn", "5"], "unrecognized arguments: --max-model-lenn", id="unknown flag"
        ),
        pytest.param(
            ["--max-model-len", "abc"],
            "argument --max-model-len: invalid human_readable_int_or_auto value: 'abc'",
            id="value of a wrong type",
        ),
        pytest.param(["--kv-cache-dtype", "fp3"], "invalid choice: 'fp3'", id="value that is no choice"),
        pytest.param(["--lora-modules", "poet"], "it must be NAME=PATH or JSON", id="adapter without a path"),
    ],
)
def test_a_wrong_argument_is_refused_with_vllms_words(capsys, words, message):
    with pytest.raises(SystemExit) as ended:
        arguments.parse(words)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def known(tmp_path):
    path = tmp_path / "engine_arguments.json"
    path.write_text(json.dumps(describe(arguments.make_parser(), engine="The stand-in engine")))
    return Known.load(path)


def test_the_supervisor_takes_from_the_list_what_the_engine_takes(tmp_path):
    check(["--max-num-seqs", "8", "-tp", "2", "--performance-mode", "throughput"], known(tmp_path))


def test_the_supervisor_refuses_by_the_list_what_the_engine_refuses(tmp_path):
    with pytest.raises(Fatal) as refused:
        check(["--max-model-lenn", "5"], known(tmp_path))
    assert "The stand-in engine has no argument --max-model-lenn" in str(refused.value)
