"""The command as a pod runs it: another process, against a real server."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from tests.unit.web_server import Fault, WebServer

MIB = 1024 * 1024
FILES = {"config.json": b"{}", "model.safetensors": os.urandom(12 * MIB)}


@pytest.fixture
def pod(tmp_path, authority):
    """Folders of a pod: /weights, /credentials and the termination log."""
    (tmp_path / "weights").mkdir()
    (tmp_path / "credentials").mkdir()
    authority.cert_pem.write_to_path(tmp_path / "credentials" / "ca.crt")
    (tmp_path / "termination-log").touch()
    return tmp_path


@pytest.fixture
def start(pod):
    """Start `stoker fetch` in the pod; ended at the end of the test if it still runs."""
    started = []

    def run(*arguments, secrets=None):
        command = [sys.executable, "-m", "stoker", "fetch", "--to", f"{pod}/weights"]
        command += ["--credentials", f"{pod}/credentials", "--termination-log", f"{pod}/termination-log"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(secrets or {})}
        process = subprocess.Popen(
            [*command, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture
def ended(start, pod):
    """Run `stoker fetch` to its end: exit code, what it printed, and its last words."""

    def run(*arguments, secrets=None):
        process = start(*arguments, secrets=secrets)
        out, err = process.communicate(timeout=120)
        text = (pod / "termination-log").read_text()
        return process.returncode, out, err, json.loads(text) if text else None

    return run


@pytest.fixture
def folder(web):
    web.put_folder("/m", FILES)
    return f"{web.url}/m"


def test_puts_model_and_adapters_in_place_and_does_nothing_the_second_time(web, folder, ended, pod):
    web.put_folder("/tone", {"adapter_config.json": b"[]"})
    arguments = ("--uri", folder, "--adapter", f"tone={web.url}/tone", "--allow-cluster-internal")
    code, out, err, words = ended(*arguments)
    assert code == 0, err
    manifest = json.loads((pod / "weights" / "manifest.json").read_text())
    assert out == f"{manifest['digest']} {manifest['modelVersion']}\n"
    assert words == {
        "digest": manifest["digest"],
        "modelVersion": manifest["modelVersion"],
        "bytes": 12 * MIB + 2,
        "files": 2,
        "seconds": words["seconds"],
    }
    assert (pod / "weights" / "model" / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert (pod / "weights" / "adapters" / "tone" / "adapter_config.json").read_bytes() == b"[]"

    web.requests.clear()
    code, out, err, again = ended(*arguments)
    assert code == 0, err
    assert "already there" in err
    assert web.requests == []
    assert again["digest"] == words["digest"]


@pytest.mark.parametrize(
    ("arguments", "reason", "words"),
    [
        pytest.param(
            ["--uri", "ftp://h/m"], "SourceNotAllowed", "must start with one of", id="an unknown scheme"
        ),
        pytest.param(
            ["--uri", "oci://r.example/m:1"], "SourceNotAllowed", "not supported yet", id="a registry"
        ),
        pytest.param(["--uri", "https://10.0.0.1/m"], "SourceNotAllowed", "inside the cluster", id="inside"),
        pytest.param(
            ["--uri", "pvc://claim/m"], "WeightsMissing", "no folder", id="a claim that is not mounted"
        ),
        pytest.param(
            ["--uri", "pvc://claim/m", "--sha256", "abc"], "WeightsCorrupt", "not a digest", id="no digest"
        ),
        pytest.param(
            ["--uri", "pvc://claim/m", "--adapter", "../up=hf://a/b"],
            "SourceNotAllowed",
            "NAME=URI",
            id="an adapter that leads elsewhere",
        ),
    ],
)
def test_ends_with_one_sentence_and_a_class(ended, arguments, reason, words):
    code, out, err, said = ended(*arguments)
    assert code == 1
    assert out == ""
    assert said["reason"] == reason
    assert words in said["message"]
    assert said["fix"]
    assert f"Error: {reason}: {said['message']}\n{said['fix']}" in err
    assert "Traceback" not in err


def test_no_secret_reaches_the_last_words(web, folder, ended):
    web.authorization = "Bearer right"
    code, _, err, said = ended(
        "--uri", folder, "--allow-cluster-internal", secrets={"HTTP_BEARER_TOKEN": "s3cret"}
    )
    assert (code, said["reason"]) == (1, "WeightsForbidden")
    assert "s3cret" not in err + json.dumps(said)


def wait_for_bytes(path, count, process):
    deadline = time.monotonic() + 60
    while not path.exists() or path.stat().st_size < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"{path} did not reach {count} bytes"
        time.sleep(0.02)


def test_killed_in_the_middle_it_goes_on_where_it_was(web, folder, start, ended, pod):
    web.fail("GET /m/model.safetensors", Fault(hold_after=9 * MIB))
    process = start("--uri", folder, "--allow-cluster-internal")
    partial = pod / "weights" / ".model.partial" / "parts" / "model.safetensors"
    wait_for_bytes(partial, 8 * MIB, process)
    process.kill()
    process.communicate()
    kept = partial.stat().st_size
    assert not (pod / "weights" / "model").exists()

    code, _, err, _ = ended("--uri", folder, "--allow-cluster-internal")
    assert code == 0, err
    assert web.ranges("/m/model.safetensors") == [None, f"bytes={kept}-"]
    assert (pod / "weights" / "model" / "model.safetensors").read_bytes() == FILES["model.safetensors"]


def test_sigterm_ends_it_at_once(web, folder, start, pod):
    web.fail("GET /m/model.safetensors", Fault(hold_after=5 * MIB))
    process = start("--uri", folder, "--allow-cluster-internal")
    wait_for_bytes(pod / "weights" / ".model.partial" / "parts" / "model.safetensors", 4 * MIB, process)
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM


def test_memory_stays_flat_however_large_the_file(server_tls, start, pod):
    peaks = []
    for size in (8 * MIB, 72 * MIB):
        with WebServer(tls=server_tls) as web:
            web.put_folder("/m", {"model.safetensors": bytes(size)})
            process = start("--uri", f"{web.url}/m", "--allow-cluster-internal")
            process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            process.stdout.close()
            process.stderr.close()
            assert process.returncode == 0
            peaks.append(usage.ru_maxrss * 1024)
    assert peaks[1] - peaks[0] < 32 * MIB
