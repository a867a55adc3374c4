"""The operator understands what the chart tells it."""

import pytest

from stoker.api.names import CORRECTIONS_NAME
from stoker.cli.operator import command
from stoker.settings import Settings


@pytest.fixture
def settings_of(rendered, monkeypatch):
    """The settings with which the operator of a case would start; unknown variables are an error."""

    def read(name):
        (deployment,) = (obj for obj in rendered(name) if obj["kind"] == "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        known = {option.envvar for option in command.params}
        for variable in container["env"]:
            assert variable["name"] in known or not variable["name"].startswith("STOKER_")
            monkeypatch.setenv(variable["name"], variable["value"])
        assert container["ports"][0]["containerPort"] == Settings().port
        return Settings(**command.make_context("operator", []).params)

    return read


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(
            "defaults",
            {
                "image": "stoker/stoker:0.1.0",
                "serving_image": "stoker/stoker-serving:0.1.0",
                "serving_image_cpu": "stoker/stoker-serving-cpu:0.1.0",
                "image_pull_policy": "IfNotPresent",
                "image_pull_secrets": (),
                "allow_cluster_internal_sources": False,
                "read_credentials": True,
                "progress_deadline_s": 600.0,
                "watch_namespaces": (),
                "log_format": "json",
                "log_level": "info",
            },
            id="defaults",
        ),
        pytest.param(
            "images from a mirror by digest",
            {
                "image": f"registry.example.com/mirror/stoker/stoker@sha256:{'a' * 64}",
                "serving_image": f"registry.example.com/mirror/stoker/stoker-serving@sha256:{'b' * 64}",
                "serving_image_cpu": "registry.example.com/mirror/own/serving:7",
                "image_pull_policy": "Always",
                "image_pull_secrets": ("mirror", "0123"),
            },
            id="images from a mirror, with credentials",
        ),
        pytest.param(
            "two namespaces only", {"watch_namespaces": ("team-a", "team-b")}, id="two namespaces only"
        ),
        pytest.param("everything off", {"read_credentials": False}, id="no Secrets"),
        pytest.param(
            "everything on",
            {"allow_cluster_internal_sources": True, "log_format": "text", "log_level": "debug"},
            id="sources inside the cluster, and another log",
        ),
    ],
)
def test_values_become_settings(name, expected, settings_of):
    settings = settings_of(name)
    assert {key: getattr(settings, key) for key in expected} == expected


def test_the_memory_of_the_chart_is_the_one_the_operator_keeps(rendered):
    (memory,) = (obj for obj in rendered("defaults") if obj["kind"] == "ConfigMap")
    assert memory["metadata"]["name"] == CORRECTIONS_NAME
    assert "data" not in memory
    (role,) = (
        obj for obj in rendered("defaults") if obj["metadata"]["name"].endswith("-lease") and "rules" in obj
    )
    named = [
        rule for rule in role["rules"] if rule["resources"] == ["configmaps"] and "resourceNames" in rule
    ]
    assert [rule["resourceNames"] for rule in named] == [[CORRECTIONS_NAME]]


def test_the_lease_of_the_chart_is_the_one_the_operator_holds(rendered):
    (lease,) = (obj for obj in rendered("defaults") if obj["kind"] == "Lease")
    assert lease["metadata"]["name"] == Settings().lease_name
    assert "spec" not in lease
