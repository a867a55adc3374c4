import pytest
from click.testing import CliRunner

from stoker.cli import main
from stoker.cli import operator as operator_command
from stoker.kube.errors import FatalError
from stoker.kube.lease import LeadershipLostError


@pytest.fixture
def started(monkeypatch):
    """The settings that the operator was started with."""
    seen = []

    async def run(settings):
        seen.append(settings)

    monkeypatch.setattr(operator_command.runtime, "run", run)
    monkeypatch.setattr(operator_command.logs, "configure", lambda **_: None)
    return seen


def call(*words, **environment):
    return CliRunner().invoke(main, ["operator", *words], env=environment)


def test_starts_with_defaults_that_work_in_a_pod(started):
    assert call().exit_code == 0
    (settings,) = started
    assert settings.watch_namespaces == ()
    assert settings.lease_name == "stoker-operator"
    assert settings.port == 8080


def test_two_replicas_never_have_the_same_name(started):
    call()
    call()
    assert started[0].identity != started[1].identity


def test_reads_the_environment_that_the_chart_sets(started):
    answer = call(
        STOKER_IMAGE="localhost/stoker:dev",
        STOKER_SERVING_IMAGE="localhost/serving:dev",
        STOKER_SERVING_IMAGE_CPU="localhost/serving-cpu:dev",
        STOKER_IMAGE_PULL_POLICY="Never",
        STOKER_IMAGE_PULL_SECRETS="one, two",
        STOKER_WATCH_NAMESPACES="a,b",
        STOKER_ALLOW_CLUSTER_INTERNAL_SOURCES="true",
        STOKER_PROGRESS_DEADLINE_SECONDS="60",
        STOKER_LOG_FORMAT="json",
        STOKER_LOG_LEVEL="debug",
    )
    assert answer.exit_code == 0, answer.output
    (settings,) = started
    assert settings.watch_namespaces == ("a", "b")
    config = settings.config()
    assert config.stoker_image == "localhost/stoker:dev"
    assert config.serving_image == "localhost/serving:dev"
    assert config.serving_image_cpu == "localhost/serving-cpu:dev"
    assert config.image_pull_policy == "Never"
    assert config.image_pull_secrets == ("one", "two")
    assert config.allow_cluster_internal_sources is True
    assert config.progress_deadline_s == 60


def test_a_flag_wins_over_the_environment(started):
    call("--port", "9000", STOKER_PORT="9001")
    assert started[0].port == 9000


def test_a_wrong_value_is_named(started):
    answer = call(STOKER_WORKERS="many")
    assert answer.exit_code == 2
    assert "'many' is not a valid integer" in answer.output
    assert "STOKER_WORKERS" in answer.output
    assert started == []


@pytest.mark.parametrize(
    "error",
    [FatalError("looking for the cluster", "there is none."), LeadershipLostError("The Lease was taken.")],
)
def test_an_operator_that_cannot_go_on_says_why_in_one_sentence(monkeypatch, started, error):
    async def run(settings):
        raise error

    monkeypatch.setattr(operator_command.runtime, "run", run)
    answer = call()
    assert answer.exit_code == 1
    assert answer.output == f"Error: {error}\n"
