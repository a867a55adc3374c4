import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def command(*words):
    return subprocess.run(
        [sys.executable, "-m", "e2e.cluster", *words], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["load-image", "x"], "error: no cluster with nodes in {state}: run `up`\n", id="load-image"
        ),
        pytest.param(["status"], "error: no cluster in {state}: run `up`\n", id="status"),
    ],
)
def test_a_mistake_is_one_sentence_without_a_traceback(tmp_path, words, message):
    done = command(*words, "--state", str(tmp_path))
    assert (done.returncode, done.stderr) == (1, message.format(state=tmp_path))


def test_a_wrong_number_of_nodes_is_refused_before_anything_starts(tmp_path):
    done = command("up", "--nodes", "0", "--state", str(tmp_path))
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "--nodes" in done.stderr


def test_down_without_a_cluster_is_no_error(tmp_path):
    assert command("down", "--state", str(tmp_path / "none")).returncode == 0
