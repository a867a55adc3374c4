import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from e2e.cluster.command import wait_for
from e2e.cluster.errors import ClusterError
from e2e.cluster.processes import Process, Processes, _end, _stat

SLEEPER = (sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)")
IGNORE_SIGTERM = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
DEAF = (sys.executable, "-c", f"{IGNORE_SIGTERM}; print('deaf', flush=True); time.sleep(60)")


@pytest.fixture
def processes(tmp_path):
    kept = Processes(state=tmp_path)
    yield kept
    kept.kill_all()


def logged(processes, name, text):
    wait_for(text, lambda: None if f"\n{text}\n" in processes.log_end(name) else "nothing yet", deadline_s=20)


def test_starts_once_and_stops(processes):
    first = processes.start("sleeper", SLEEPER)
    assert processes.start("sleeper", SLEEPER) == first
    logged(processes, "sleeper", "here")
    processes.stop("sleeper")
    assert not first.alive
    assert processes.names() == []


def test_another_command_replaces_the_process(processes):
    first = processes.start("sleeper", SLEEPER)
    second = processes.start("sleeper", (*SLEEPER, "other"))
    assert not first.alive
    assert second.alive


def test_a_changed_configuration_replaces_the_process(processes, tmp_path):
    config = tmp_path / "config"
    config.write_text("one")
    first = processes.start("sleeper", SLEEPER, configured_by=[config])
    assert processes.start("sleeper", SLEEPER, configured_by=[config]) == first
    config.write_text("two")
    second = processes.start("sleeper", SLEEPER, configured_by=[config])
    assert (first.alive, second.alive) == (False, True)


def test_what_ignores_sigterm_is_killed(processes, monkeypatch):
    monkeypatch.setattr("e2e.cluster.processes._TERM_DEADLINE_S", 0.2)
    deaf = processes.start("deaf", DEAF)
    logged(processes, "deaf", "deaf")
    processes.stop("deaf")
    assert not deaf.alive


def test_kills_all_at_once(processes):
    started = [processes.start(name, SLEEPER) for name in ("one", "two")]
    processes.kill_all()
    assert not any(process.alive for process in started)
    assert processes.names() == []


def test_a_process_with_a_recycled_id_is_left_alone(processes):
    with subprocess.Popen(SLEEPER, stdout=subprocess.DEVNULL) as stranger:
        ours = processes.start("sleeper", SLEEPER)
        recycled = replace(ours, pid=stranger.pid, started_ticks=_stat(stranger.pid)[1] - 1)
        _end({"sleeper": recycled}, signal.SIGTERM, deadline_s=1)
        assert not recycled.alive
        assert stranger.poll() is None
        stranger.terminate()


def test_a_file_from_before_a_reboot_names_no_living_process(processes):
    ours = processes.start("sleeper", SLEEPER)
    assert not replace(ours, boot_id="another").alive


def test_an_unused_id_is_not_alive():
    assert not Process(pid=2**22 + 1, started_ticks=1, boot_id="", command=[], configuration="").alive


def test_a_process_that_ended_is_reported_with_its_log(processes):
    processes.start("brief", (sys.executable, "-c", "print('port 6443 is taken')"))
    wait_for("its end", lambda: "alive" if processes.get("brief").alive else None, deadline_s=20)
    with pytest.raises(ClusterError, match=r"brief ended by itself[\s\S]*port 6443 is taken"):
        processes.check_alive("brief")


def test_a_missing_program_is_named(processes):
    with pytest.raises(ClusterError, match="nothing can't be started: /no/such: No such file"):
        processes.start("nothing", ["/no/such"])


def test_a_process_has_a_session_of_its_own(processes):
    ours = processes.start("sleeper", SLEEPER)
    assert os.getsid(ours.pid) == ours.pid
