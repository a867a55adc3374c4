import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.gateway.endpoints import endpoint_of
from stoker.gateway.errors import Code, Rejection
from stoker.gateway.request import read_request

CHAT = endpoint_of("/v1/chat/completions")
EMBEDDINGS = endpoint_of("/v1/embeddings")
AUDIO = endpoint_of("/v1/audio/transcriptions")


def read(body, endpoint=CHAT, content_type=b"application/json"):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_request(content, endpoint=endpoint, content_type=content_type)


def sent(request, model="m"):
    return b"".join(request.to_send(model))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, {"include_usage": True}, id="nothing was said"),
        pytest.param({"stream_options": None}, {"include_usage": True}, id="null"),
        pytest.param({"stream_options": {}}, {"include_usage": True}, id="no options"),
        pytest.param(
            {"stream_options": {"include_usage": False}}, {"include_usage": True}, id="not asked for"
        ),
        pytest.param(
            {"stream_options": {"continuous_usage_stats": True}},
            {"continuous_usage_stats": True, "include_usage": True},
            id="with other options",
        ),
    ],
)
@pytest.mark.parametrize("end", [b"", b" \r\n\t"])
def test_the_engine_is_asked_for_the_usage_of_a_stream(options, expected, end):
    body = {"model": "m", "stream": True, "messages": [{"content": "}"}], **options}
    request = read(json.dumps(body).encode() + end)
    assert request.adds_usage
    assert json.loads(sent(request)) == body | {"stream_options": expected}


@pytest.mark.parametrize(
    ("fields", "endpoint"),
    [
        pytest.param({}, CHAT, id="not a stream"),
        pytest.param({"stream": False}, CHAT, id="explicitly not a stream"),
        pytest.param({"stream": True, "stream_options": {"include_usage": True}}, CHAT, id="asked for"),
        pytest.param({"stream": True}, EMBEDDINGS, id="an endpoint without that option"),
    ],
)
def test_otherwise_the_body_is_sent_as_it_came(fields, endpoint):
    body = json.dumps({"model": "m", **fields}).encode() + b"\n"
    request = read(body, endpoint)
    assert not request.adds_usage
    assert sent(request) == body


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b'{"model":"m","messages":"\\ud800"}', id="half a character"),
        pytest.param(b'{"model":"m","n":NaN}', id="a number that is none"),
        pytest.param(b'{"model":"m","n":123456789012345678901234567890}', id="a number beyond 64 bits"),
        pytest.param(b'{"model":"m","n":1e999}', id="a number beyond a double"),
        pytest.param(b'{"model":"m","a":{"model":"x"}}', id="a model further inside"),
    ],
)
def test_what_does_not_matter_here_is_left_to_the_engine(content):
    assert sent(read(content)) == content


def test_the_model_gets_the_name_that_the_engine_knows():
    request = read({"model": "demo/m", "stream": True})
    assert json.loads(sent(request))["model"] == "m"


@given(
    st.dictionaries(
        st.text(max_size=5), st.none() | st.integers() | st.text(max_size=9) | st.lists(st.text()), max_size=5
    )
)
def test_nothing_else_of_the_body_changes(fields):
    body = {**fields, "model": "demo/m", "stream": True, "stream_options": None}
    expected = body | {"model": "m", "stream_options": {"include_usage": True}}
    assert json.loads(sent(read(body))) == expected


def test_of_a_key_that_is_there_twice_the_last_counts_here_as_in_the_engine():
    request = read(b'{"model":"a","model":"b","stream":false,"stream":true}')
    assert (request.model, request.stream) == ("b", True)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"", Code.INVALID_JSON, id="empty"),
        pytest.param(b"{", Code.INVALID_JSON, id="cut off"),
        pytest.param(b'{"model":"m"} x', Code.INVALID_JSON, id="something behind it"),
        pytest.param(b'{"model":"\xff"}', Code.INVALID_JSON, id="not UTF-8"),
        pytest.param(b"[" * 100_000, Code.INVALID_JSON, id="nested without end"),
        pytest.param(b"[]", Code.INVALID_REQUEST, id="a list"),
        pytest.param(b'"m"', Code.INVALID_REQUEST, id="a string"),
        pytest.param({}, Code.INVALID_REQUEST, id="no model"),
        pytest.param({"model": ""}, Code.INVALID_REQUEST, id="an empty model"),
        pytest.param(b'{"model":"\\ud800"}', Code.INVALID_REQUEST, id="half a character"),
        pytest.param({"model": "a\nb"}, Code.INVALID_REQUEST, id="a model of two lines"),
        pytest.param('{"model":"m"}'.encode("utf-16"), Code.INVALID_JSON, id="UTF-16"),
        pytest.param({"model": 1}, Code.INVALID_REQUEST, id="a model that is a number"),
        pytest.param({"model": "m", "stream": "yes"}, Code.INVALID_REQUEST, id="a stream in words"),
        pytest.param(
            {"model": "m", "stream_options": []}, Code.INVALID_REQUEST, id="options that are a list"
        ),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_with_one_sentence(body, code):
    rejection = read(body)
    assert isinstance(rejection, Rejection)
    assert rejection.code is code
    assert rejection.message.endswith((".", ")"))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_request_or_a_rejection(content):
    for endpoint in (CHAT, AUDIO):
        read(content, endpoint, b"multipart/form-data; boundary=x")


@pytest.mark.parametrize(
    ("fields", "answer_tokens"),
    [
        pytest.param({}, 0, id="not said"),
        pytest.param({"max_tokens": 50}, 50, id="max_tokens"),
        pytest.param({"max_completion_tokens": 60, "max_tokens": 50}, 60, id="max_completion_tokens"),
        pytest.param({"max_output_tokens": 70}, 70, id="of responses"),
        pytest.param({"max_tokens": -1}, 0, id="negative"),
        pytest.param({"max_tokens": "many"}, 0, id="in words"),
    ],
)
def test_tokens_are_those_of_the_prompt_and_the_most_of_the_answer(fields, answer_tokens):
    content = json.dumps({"model": "m", **fields}).encode()
    assert read(content).tokens == len(content) // 4 + answer_tokens


def test_the_tokens_of_an_image_in_the_body_are_not_guessed_from_its_bytes():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    fields = {"model": "chat", "messages": [{"role": "user", "content": [image]}], "max_tokens": 50}
    assert read(json.dumps(fields).encode()).tokens == 50


def prompt(text, **fields):
    return {"model": "m", "messages": [{"role": "user", "content": text}], **fields}


def test_prompts_that_begin_alike_have_one_key_whatever_else_the_requests_say():
    system = "You are helpful. " * 100
    keys = {read(prompt(system + end, temperature=t)).prefix_key for end, t in (("a", 0.1), ("b", 1.25))}
    assert len(keys) == 1
    assert keys != {None}
    assert read(prompt("Another. " * 200)).prefix_key not in keys
    assert read(prompt(system) | {"model": "adapter"}).prefix_key not in keys


def test_a_short_prompt_has_no_key():
    assert read(prompt("Hi")).prefix_key is None
    assert read(prompt("Hi", padding="x" * 900)).prefix_key is None
    assert read({"model": "m", "input": "x" * 5000}).prefix_key is None


def form(**fields):
    parts = [
        b'--b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (name.encode(), value)
        for name, value in fields.items()
    ]
    return b"".join(parts) + b"--b--\r\n"


@pytest.mark.parametrize(
    ("content", "model", "stream"),
    [
        pytest.param(
            form(model=b"whisper", stream=b"true", file=b"x"), "whisper", True, id="before the file"
        ),
        pytest.param(form(file=b"x" * 300_000, model=b"whisper"), "whisper", False, id="behind the file"),
        pytest.param(form(file=b"x"), "", False, id="no model"),
        pytest.param(
            form(file=b'name="model"\r\n\r\nfake\r\n', model=b"real"), "real", False, id="in the file"
        ),
    ],
)
def test_a_form_names_its_model_in_a_field(content, model, stream):
    request = read(content, AUDIO, b'multipart/form-data; boundary="b"')
    assert (request.model, request.stream) == (model, stream)
    assert sent(request, "other") == content


def test_a_form_without_a_boundary_is_refused():
    assert read(b"x", AUDIO, b"multipart/form-data").code is Code.INVALID_REQUEST
