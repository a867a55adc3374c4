"""What the chart installs asks for no more than it needs."""

import pytest
from tests.chart.cases import CASES

from stoker.kube.permissions import (
    GATEWAY_IN_OWN_NAMESPACE,
    GATEWAY_IN_WATCHED_NAMESPACES,
    IN_OWN_NAMESPACE,
    IN_WATCHED_NAMESPACES,
    TO_READ_CREDENTIALS,
    TO_READ_LOAD,
)

cases = pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in CASES])

IMAGE_SETTINGS = {"STOKER_IMAGE", "STOKER_SERVING_IMAGE", "STOKER_SERVING_IMAGE_CPU"}


def pod_specs(objects):
    for obj in objects:
        if obj["kind"] == "Pod":
            yield obj["metadata"]["name"], obj["spec"]
        elif "template" in obj.get("spec", {}):
            yield obj["metadata"]["name"], obj["spec"]["template"]["spec"]


@cases
def test_every_pod_can_do_as_little_as_possible(name, rendered):
    specs = dict(pod_specs(rendered(name)))
    assert len(specs) == (2 if name == "everything off" else 3)
    for pod in specs.values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"].get("runAsUser", 1000) == 1000
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["enableServiceLinks"] is False
        assert all(volume.keys() <= {"name", "emptyDir", "secret"} for volume in pod.get("volumes", []))
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_only_who_talks_to_the_api_server_has_a_token(rendered):
    tokens = {name: pod["automountServiceAccountToken"] for name, pod in pod_specs(rendered("defaults"))}
    assert tokens == {"stoker-operator": True, "stoker-gateway": True, "stoker-health": False}


def images(objects):
    """Images of the chart's own pods, and those that the operator is told to use."""
    for _, pod in pod_specs(objects):
        for container in pod["containers"]:
            told = {variable["name"]: variable.get("value") for variable in container.get("env", [])}
            yield from (container["image"], *(told[name] for name in IMAGE_SETTINGS & told.keys()))


@cases
def test_every_image_is_pinned(name, rendered):
    found = list(images(rendered(name)))
    assert len(found) == (5 if name == "everything off" else 6)
    for image in found:
        tag = image.partition("@")[2] or image.rpartition("/")[2].partition(":")[2]
        assert tag not in ("", "latest"), image


def rules(objects):
    return [
        (obj["metadata"]["name"], rule)
        for obj in objects
        if obj["kind"] in ("Role", "ClusterRole")
        for rule in obj["rules"]
    ]


@cases
def test_no_role_has_a_wildcard(name, rendered):
    granted = rules(rendered(name))
    assert granted
    for role, rule in granted:
        for field in ("apiGroups", "resources", "verbs"):
            assert rule[field], role
            assert "*" not in "".join(rule[field]), role


def permissions(found):
    """Rules as a set of single permissions, however they are grouped."""
    return {
        (group, resource, verb)
        for rule in found
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param("defaults", "ClusterRole", id="for all namespaces"),
        pytest.param("two namespaces only", "Role", id="in each of two namespaces"),
    ],
)
def test_the_operator_may_do_exactly_what_it_does(name, kind, rendered):
    objects = [obj for obj in rendered(name) if obj["kind"] == kind]
    roles = [obj for obj in objects if obj["metadata"]["name"] == "stoker-operator"]
    places = [obj["metadata"].get("namespace") for obj in roles]
    assert places == CASES[name].values.get("watchNamespaces", [None])
    for role in roles:
        assert permissions(role["rules"]) == permissions(IN_WATCHED_NAMESPACES + TO_READ_CREDENTIALS)


def test_without_credentials_it_may_read_no_secret(rendered):
    (role,) = (
        obj
        for obj in rendered("everything off")
        if obj["kind"] == "ClusterRole" and obj["metadata"]["name"] == "stoker-operator"
    )
    assert permissions(role["rules"]) == permissions(IN_WATCHED_NAMESPACES)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param("defaults", "ClusterRole", id="for all namespaces"),
        pytest.param("two namespaces only", "Role", id="in each of two namespaces"),
    ],
)
def test_the_gateway_may_do_exactly_what_it_does(name, kind, rendered):
    objects = [obj for obj in rendered(name) if obj["kind"] == kind]
    roles = [obj for obj in objects if obj["metadata"]["name"] == "stoker-gateway"]
    places = [obj["metadata"].get("namespace") for obj in roles]
    assert places == CASES[name].values.get("watchNamespaces", [None])
    for role in roles:
        assert permissions(role["rules"]) == permissions(GATEWAY_IN_WATCHED_NAMESPACES)
    (own,) = (o for o in rendered(name) if o["metadata"]["name"] == "stoker-gateway-peers" and "rules" in o)
    assert own["metadata"]["namespace"] == CASES[name].namespace
    assert permissions(own["rules"]) == permissions(GATEWAY_IN_OWN_NAMESPACE)


@cases
def test_the_operator_may_hold_its_lease_and_keep_what_was_measured(name, rendered):
    (role,) = (obj for obj in rendered(name) if obj["metadata"]["name"].endswith("-lease") and "rules" in obj)
    assert role["metadata"]["namespace"] == CASES[name].namespace
    gateway = CASES[name].values.get("gateway", {}).get("enabled", True)
    assert permissions(role["rules"]) == permissions(IN_OWN_NAMESPACE + (TO_READ_LOAD if gateway else ()))


@cases
def test_nobody_may_list_secrets_or_change_roles(name, rendered):
    forbidden = {"roles", "rolebindings", "clusterroles", "clusterrolebindings", "pods/exec"}
    granted = rules(rendered(name))
    assert [role for role, rule in granted if forbidden & set(rule["resources"])] == []
    on_secrets = [(role, rule["verbs"]) for role, rule in granted if "secrets" in rule["resources"]]
    assert all(verbs == ["get"] for _, verbs in on_secrets)
    assert bool(on_secrets) == (name != "everything off")


def test_images_come_from_the_runtimes_own_registry_by_default(rendered):
    for image in images(rendered("defaults")):
        assert "." not in image.split("/")[0], image
