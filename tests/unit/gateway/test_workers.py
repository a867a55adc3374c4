"""Real processes: a parent in a process of its own, as it forks and takes over signals."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import logging, os, signal, sys, time
from pathlib import Path
from stoker.gateway import workers
from stoker.gateway.workers import Workers

folder, young_s, status = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
workers._YOUNG_S = young_s
logging.basicConfig()

def work(number):
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    # Written elsewhere and moved, or it may be read half written.
    (folder / f"{number}.new").write_text(str(os.getpid()))
    (folder / f"{number}.new").rename(folder / str(number))
    while not stopped:
        signal.pause()
    return status

sys.exit(Workers(2, work).run())
"""


@pytest.fixture
def start(tmp_path):
    started = []

    def start(*, young_s=0.0, status=0):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(young_s), str(status)]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE))
        return started[-1]

    yield start
    for parent in started:
        if parent.poll() is None:
            parent.kill()
        parent.communicate()


@pytest.fixture
def pid_of(tmp_path):
    """Process id of a worker, once it works; another one than `than`."""

    def wait(number, *, than=None):
        path = Path(tmp_path) / str(number)
        give_up_at_s = time.monotonic() + 20
        while not path.exists() or int(path.read_text()) == than:
            assert time.monotonic() < give_up_at_s
            time.sleep(0.01)
        return int(path.read_text())

    return wait


@pytest.mark.parametrize("order", [signal.SIGTERM, signal.SIGINT])
def test_an_order_to_stop_goes_to_all(start, pid_of, order):
    parent = start()
    pids = [pid_of(0), pid_of(1)]
    parent.send_signal(order)
    assert parent.wait(20) == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_worker_that_dies_is_replaced_and_the_others_go_on(start, pid_of):
    parent = start()
    first, other = pid_of(0), pid_of(1)
    os.kill(first, signal.SIGKILL)
    assert pid_of(0, than=first) != first
    assert pid_of(1) == other
    parent.terminate()
    assert parent.wait(20) == 0
    assert b"a worker ended" in parent.stderr.read()


def test_one_that_dies_young_takes_all_with_it(start, pid_of):
    parent = start(young_s=60)
    other = pid_of(1)
    os.kill(pid_of(0), signal.SIGKILL)
    assert parent.wait(20) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(other, 0)
