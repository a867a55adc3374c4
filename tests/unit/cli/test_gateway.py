import pytest
from click.testing import CliRunner

from stoker.cli import gateway as gateway_command
from stoker.cli import main


@pytest.fixture
def started(monkeypatch):
    """The settings that the gateway was started with."""
    seen = []

    def run(settings):
        seen.append(settings)
        return 0

    monkeypatch.setattr(gateway_command.runtime, "run", run)
    monkeypatch.setattr(gateway_command.logs, "configure", lambda **_: None)
    return seen


def call(*words, **environment):
    return CliRunner().invoke(main, ["gateway", *words], env=environment)


def test_starts_with_defaults_that_work_in_a_pod(started):
    assert call().exit_code == 0
    (settings,) = started
    assert (settings.watch_namespaces, settings.port, settings.admin_port, settings.workers) == (
        (),
        8000,
        8080,
        1,
    )


def test_reads_the_environment_that_the_chart_sets(started):
    answer = call(
        STOKER_WATCH_NAMESPACES="a,b",
        STOKER_NAMESPACE="stoker-system",
        STOKER_SERVICE="stoker-gateway",
        STOKER_WORKERS="4",
        STOKER_DRAIN_SECONDS="600",
        STOKER_TLS_CERTIFICATE="/etc/stoker/tls/tls.crt",
    )
    assert answer.exit_code == 0, answer.output
    (settings,) = started
    assert settings.watch_namespaces == ("a", "b")
    assert (settings.namespace, settings.service) == ("stoker-system", "stoker-gateway")
    assert (settings.workers, settings.drain_s) == (4, 600.0)
    assert settings.tls_certificate == "/etc/stoker/tls/tls.crt"


def test_every_flag_is_explained():
    answer = call("--help")
    assert answer.exit_code == 0
    assert "Seconds for which running requests may go on" in answer.output


def test_the_exit_status_is_that_of_the_run(monkeypatch, started):
    monkeypatch.setattr(gateway_command.runtime, "run", lambda _: 1)
    assert call().exit_code == 1
