import sys
from pathlib import Path

import pytest

from stoker_serving.settings import Settings


def test_defaults_are_those_of_a_pod():
    settings = Settings.from_environ({})
    assert settings.engine_command == (sys.executable, "-m", "vllm.entrypoints.openai.api_server")
    assert settings.weights == Path("/weights")
    assert settings.termination_log == Path("/dev/termination-log")
    assert settings.probe_port == 8081
    assert settings.endpoint_removal_s == 5
    assert settings.max_requests is None
    assert settings.weights_digest is None


def test_every_variable_is_read():
    settings = Settings.from_environ(
        {
            "STOKER_ENGINE_COMMAND": "python3 -m 'my engine'",
            "STOKER_ENGINE_ARGUMENTS": "/a.json",
            "STOKER_WEIGHTS": "/w",
            "STOKER_WEIGHTS_DIGEST": "sha256:1",
            "STOKER_REVISION": "chat-1",
            "STOKER_PROBE_PORT": "9",
            "STOKER_ENDPOINT_REMOVAL_SECONDS": "1.5",
            "STOKER_DRAIN_SECONDS": "0",
            "STOKER_STUCK_SECONDS": "3",
            "STOKER_MAX_REQUESTS": "64",
            "STOKER_TERMINATION_LOG": "/t",
        }
    )
    assert settings == Settings(
        engine_command=("python3", "-m", "my engine"),
        engine_arguments=Path("/a.json"),
        weights=Path("/w"),
        weights_digest="sha256:1",
        revision="chat-1",
        probe_port=9,
        endpoint_removal_s=1.5,
        drain_s=0,
        stuck_s=3,
        max_requests=64,
        termination_log=Path("/t"),
    )


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_what_is_no_number_is_named(text):
    with pytest.raises(ValueError, match="STOKER_DRAIN_SECONDS="):
        Settings.from_environ({"STOKER_DRAIN_SECONDS": text})
