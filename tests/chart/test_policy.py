"""What the chart installs asks for no more than it needs."""

import pytest
from tests.chart.cases import CASES

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
    assert len(specs) == 2
    for pod in specs.values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] >= 1000
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["enableServiceLinks"] is False
        assert all(volume.keys() <= {"name", "emptyDir"} for volume in pod.get("volumes", []))
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_only_the_operator_has_a_token(rendered):
    tokens = {name: pod["automountServiceAccountToken"] for name, pod in pod_specs(rendered("defaults"))}
    assert tokens == {"stoker-operator": True, "stoker-health": False}


def images(objects):
    """Images of the chart's own pods, and those that the operator is told to use."""
    for _, pod in pod_specs(objects):
        for container in pod["containers"]:
            told = {variable["name"]: variable.get("value") for variable in container.get("env", [])}
            yield from (container["image"], *(told[name] for name in IMAGE_SETTINGS & told.keys()))


@cases
def test_every_image_is_pinned(name, rendered):
    found = list(images(rendered(name)))
    assert len(found) == 5
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


@cases
def test_nobody_may_read_secrets_or_change_roles(name, rendered):
    forbidden = {"secrets", "roles", "rolebindings", "clusterroles", "clusterrolebindings", "pods/exec"}
    assert [role for role, rule in rules(rendered(name)) if forbidden & set(rule["resources"])] == []


def test_images_come_from_the_runtimes_own_registry_by_default(rendered):
    for image in images(rendered("defaults")):
        assert "." not in image.split("/")[0], image
