"""Runs a whole instance as a process of its own, as a container would, with a scripted engine."""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DEADLINE_S = 20.0


@dataclasses.dataclass
class RunningInstance:
    process: subprocess.Popen
    port: int
    probe_port: int
    termination_log: Path
    output: Path

    def probe(self, path):
        """Status and document of a probe."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.probe_port}{path}", timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def complete(self, *, max_tokens, stream=True, timeout_s=DEADLINE_S):
        """An open response of `/v1/completions`; close it."""
        body = json.dumps({"model": "chat", "prompt": "x", "max_tokens": max_tokens, "stream": stream})
        return urllib.request.urlopen(
            f"http://127.0.0.1:{self.port}/v1/completions", data=body.encode(), timeout=timeout_s
        )

    def wait_until(self, condition, what, *, deadline_s=DEADLINE_S):
        """Waits for `condition()` to be true and returns what it gave."""
        end_s = time.monotonic() + deadline_s
        while time.monotonic() < end_s:
            with contextlib.suppress(urllib.error.URLError):
                if value := condition():
                    return value
            assert self.process.poll() is None, f"ended while waiting for {what}: {self.output.read_text()}"
            time.sleep(0.02)
        raise AssertionError(f"no {what} within {deadline_s} s: {self.output.read_text()}")

    def wait_until_ready(self):
        self.wait_until(lambda: self.probe("/readyz")[0] == 200, "readiness")

    def wait_for_stage(self, stage):
        self.wait_until(lambda: self.probe("/state")[1]["stage"] == stage, stage)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def exit_code(self):
        return self.process.wait(timeout=DEADLINE_S)

    def failure(self):
        return json.loads(self.termination_log.read_text())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def start_instance(tmp_path):
    """Starts an instance; `script` tells the engine what to do (`scripted_engine.py`)."""
    with contextlib.ExitStack() as running:

        def start(*, script=None, arguments=("--model", "/m", "--served-model-name", "chat"), **environment):
            port, probe_port = free_port(), free_port()
            output = tmp_path / "output"
            settings = {
                "STOKER_ENGINE_COMMAND": f"{sys.executable} {Path(__file__).with_name('scripted_engine.py')}",
                "STOKER_PROBE_PORT": str(probe_port),
                "STOKER_TERMINATION_LOG": str(tmp_path / "termination-log"),
                "STOKER_ENDPOINT_REMOVAL_SECONDS": "0.3",
                "STOKER_DRAIN_SECONDS": "10",
                "STOKER_REVISION": "chat-00000000",
                "PYTHONPATH": str(ROOT / "serving_image"),
                "SCRIPT": json.dumps(script or {}),
            }
            process = subprocess.Popen(
                [sys.executable, "-m", "stoker_serving", *arguments, "--port", str(port)],
                env=os.environ | settings | environment,
                stdout=running.enter_context(output.open("w")),
                stderr=subprocess.STDOUT,
            )
            running.callback(_end, process)
            return RunningInstance(process, port, probe_port, tmp_path / "termination-log", output)

        yield start


def _end(process):
    if process.poll() is None:
        process.kill()
        process.wait()
