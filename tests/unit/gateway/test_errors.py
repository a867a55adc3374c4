import json

import pytest

from stoker.gateway.errors import Code, Rejection


@pytest.mark.parametrize(
    ("code", "status", "error_type"),
    [
        pytest.param(Code.QUEUE_FULL, 429, "rate_limit_error", id="a full queue asks to slow down"),
        pytest.param(Code.QUEUE_TOO_SLOW, 429, "rate_limit_error", id="and one that is too slow"),
        pytest.param(Code.RATE_LIMITED, 429, "rate_limit_error", id="so does a limit of the key"),
        pytest.param(Code.NO_INSTANCE, 503, "server_error", id="no instance is our fault"),
        pytest.param(Code.QUEUE_TIMEOUT, 503, "server_error", id="so is a wait that was too long"),
        pytest.param(Code.DRAINING, 503, "server_error", id="and a gateway that shuts down"),
        pytest.param(Code.ENGINE_UNREACHABLE, 502, "server_error", id="an engine that is not there"),
        pytest.param(Code.ENGINE_TIMEOUT, 504, "server_error", id="an engine that does not answer"),
        pytest.param(Code.MODEL_NOT_FOUND, 404, "invalid_request_error", id="a wrong name is the client's"),
        pytest.param(Code.BODY_TOO_LARGE, 413, "invalid_request_error", id="so is a body too large"),
        pytest.param(Code.UNAUTHORIZED, 401, "authentication_error", id="a wrong key has a type of its own"),
    ],
)
def test_each_code_has_the_status_and_type_that_clients_act_on(code, status, error_type):
    rejection = Rejection(code=code, message="m")
    assert (rejection.status, rejection.type) == (status, error_type)


@pytest.mark.parametrize("code", [pytest.param(code, id=code.value) for code in Code])
def test_every_code_has_an_answer(code):
    rejection = Rejection(code=code, message="m")
    assert 400 <= rejection.status < 600
    assert json.loads(rejection.body())["error"]["code"] == code.value


def test_the_body_has_the_shape_that_the_client_libraries_of_openai_read():
    rejection = Rejection(code=Code.INVALID_REQUEST, message='no "model"', param="model")
    assert json.loads(rejection.body()) == {
        "error": {
            "message": 'no "model"',
            "type": "invalid_request_error",
            "param": "model",
            "code": "invalid_request",
        }
    }


def test_the_event_that_ends_a_stream_is_one_line_of_data():
    event = Rejection(code=Code.ENGINE_FAILED, message="line one\nline two").event()
    assert event.startswith(b"data: {")
    assert event.endswith(b"}\n\n")
    assert event.count(b"\n") == 2


@pytest.mark.parametrize(
    ("seconds", "header"),
    [
        pytest.param(6.25, 7, id="whole seconds, never too early"),
        pytest.param(1.0, 1, id="a whole number stays"),
        pytest.param(None, None, id="none where another try would end the same"),
    ],
)
def test_retry_after(seconds, header):
    assert Rejection(code=Code.QUEUE_FULL, message="m", retry_after_s=seconds).retry_after == header
