import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from e2e.cluster.command import run, unanswered, wait_for, without_proxy
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


def test_programs_of_the_cluster_know_no_proxy(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    assert "HTTPS_PROXY" not in without_proxy()
    assert "http_proxy" not in without_proxy()
    assert "PATH" in without_proxy()


@pytest.fixture
def status_server():
    """A server that answers the status in its path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(int(self.path.strip("/")))
            self.send_header("Content-Length", "0")
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_answer_is_found_past_any_proxy(status_server, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert unanswered(f"{status_server}/200") is None


def test_a_failure_is_no_answer(status_server):
    assert "503" in unanswered(f"{status_server}/503")
