"""The operator and the gateway understand what the chart tells them."""

import pytest
from tests.chart.helm import container_of

from stoker.api.names import CORRECTIONS_NAME
from stoker.cli import gateway, operator
from stoker.gateway.settings import Settings as GatewaySettings
from stoker.settings import Settings


@pytest.fixture
def settings_of(rendered, monkeypatch):
    """The settings with which the operator of a case would start; unknown variables are an error."""

    def read(name):
        container = container_of(rendered(name), "operator")
        assert container["ports"][0]["containerPort"] == Settings().port
        return Settings(**told(container, operator.command, monkeypatch))

    return read


@pytest.fixture
def gateway_settings_of(rendered, monkeypatch):
    """The same of the gateway."""

    def read(name):
        container = container_of(rendered(name), "gateway")
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        default = GatewaySettings()
        assert ports["http"] == default.port
        assert ports.get("https", default.tls_port) == default.tls_port
        settings = GatewaySettings(**told(container, gateway.command, monkeypatch))
        admin = [port for port_name, port in ports.items() if port_name.startswith("admin")]
        assert admin == [default.admin_port + worker for worker in range(settings.workers)]
        return settings

    return read


def told(container, command, monkeypatch):
    """What a command makes of a container's environment."""
    known = {option.envvar for option in command.params}
    for variable in container["env"]:
        assert variable["name"] in known or not variable["name"].startswith("STOKER_")
        monkeypatch.setenv(variable["name"], variable["value"])
    return command.make_context(command.name, []).params


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
                "gateway_url": "http://stoker-gateway.stoker-system.svc/v1",
                "gateway_service": "stoker-gateway",
                "gateway_workers": 1,
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
        pytest.param(
            "everything off",
            {"read_credentials": False, "gateway_url": "", "gateway_service": ""},
            id="no Secrets and no gateway",
        ),
        pytest.param(
            "everything on",
            {"allow_cluster_internal_sources": True, "log_format": "text", "log_level": "debug"}
            | {"gateway_url": "https://models.example.com/v1"},
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


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(
            "defaults",
            {
                "watch_namespaces": (),
                "service": "stoker-gateway",
                "workers": 1,
                "drain_s": 300.0,
                "tls_certificate": "",
                "api_keys": "",
                "log_format": "json",
            },
            id="defaults",
        ),
        pytest.param(
            "two namespaces only", {"watch_namespaces": ("team-a", "team-b")}, id="two namespaces only"
        ),
        pytest.param(
            "everything on",
            {
                "workers": 2,
                "drain_s": 600.0,
                "tls_certificate": "/etc/stoker/tls/tls.crt",
                "tls_key": "/etc/stoker/tls/tls.key",
                "api_keys": "/etc/stoker/api-keys",
                "silence_timeout_s": 900.0,
                "log_level": "debug",
            },
            id="with TLS, keys, workers and a setting of its own",
        ),
    ],
)
def test_values_become_settings_of_the_gateway(name, expected, gateway_settings_of):
    settings = gateway_settings_of(name)
    assert {key: getattr(settings, key) for key in expected} == expected


def test_the_gateway_counts_the_pods_of_the_service_that_the_chart_makes(rendered, gateway_settings_of):
    for name in ("defaults", "a release with a long name of its own"):
        services = [o["metadata"]["name"] for o in rendered(name) if o["kind"] == "Service"]
        assert gateway_settings_of(name).service in services


def test_what_the_operator_is_told_of_the_gateway_is_where_it_is(rendered, settings_of):
    (service,) = (
        obj
        for obj in rendered("defaults")
        if obj["kind"] == "Service" and obj["metadata"]["name"].endswith("-gateway")
    )
    metadata = service["metadata"]
    assert service["spec"]["ports"][0]["port"] == 80
    url = f"http://{metadata['name']}.{metadata['namespace']}.svc/v1"
    assert settings_of("defaults").gateway_url == url


def test_the_lease_of_the_chart_is_the_one_the_operator_holds(rendered):
    (lease,) = (obj for obj in rendered("defaults") if obj["kind"] == "Lease")
    assert lease["metadata"]["name"] == Settings().lease_name
    assert "spec" not in lease
