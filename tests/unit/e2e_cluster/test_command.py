import sys

import pytest
from e2e.cluster.command import run, wait_for
from e2e.cluster.errors import ClusterError


def test_returns_what_the_program_wrote():
    assert run(sys.executable, "-c", "print(input() * 2)", stdin="ab") == "abab\n"


def test_a_failure_shows_the_command_and_its_message():
    with pytest.raises(ClusterError, match=r"exit status 3 from: .*\nwrong disk"):
        run(sys.executable, "-c", "import sys; print('wrong disk', file=sys.stderr); sys.exit(3)")


def test_a_missing_program_is_named():
    with pytest.raises(ClusterError, match="no-such-program isn't installed"):
        run("no-such-program", "--version")


def test_a_deadline_names_the_command():
    with pytest.raises(ClusterError, match="no end after 0 s: "):
        run(sys.executable, "-c", "import time; time.sleep(30)", deadline_s=0.1)


def test_waits_until_nothing_is_missing():
    answers = iter(["two", "one", None])
    wait_for("the count", lambda: next(answers), deadline_s=20)


def test_a_passed_deadline_says_what_was_missing():
    with pytest.raises(ClusterError, match="waited 0 s for two nodes: n2 is not Ready"):
        wait_for("two nodes", lambda: "n2 is not Ready", deadline_s=0)
