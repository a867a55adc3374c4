import json
from dataclasses import replace

import pytest
from tests.unit.core.simulator import CONFIG, a_spec

from stoker.api.spec import InferenceServiceSpec
from stoker.core.podspec import pod_template
from stoker.core.sources import parse_source

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def build(*, config=CONFIG, service_name="chat", **fields):
    spec = a_spec(**fields)
    spec["model"] = {"uri": "hf://Qwen/Qwen2.5-7B-Instruct"} | fields.get("model", {})
    source = parse_source(spec["model"]["uri"], allow_cluster_internal=True)
    return pod_template(
        InferenceServiceSpec.model_validate(spec),
        source,
        service_name=service_name,
        revision="chat-5f3a9c01",
        config=config,
    )


def engine(template):
    (container,) = template["spec"]["containers"]
    return container


def weights(template):
    (container,) = template["spec"]["initContainers"]
    return container


def named(items, name):
    (found,) = [item for item in items if item["name"] == name]
    return found


def all_values(value):
    if isinstance(value, dict):
        for item in value.values():
            yield from all_values(item)
    elif isinstance(value, list):
        for item in value:
            yield from all_values(item)
    else:
        yield value


EVERYTHING = {
    "model": {
        "uri": "pvc://models/llama",
        "revision": "a09a354",
        "sha256": "0" * 64,
        "credentialsSecret": "token",
        "adapters": [{"name": "a", "uri": "hf://x/y"}],
    },
    "engine": {"image": "acme/serving:2", "env": [{"name": "A", "value": "1"}], "args": ["--enforce-eager"]},
    "accelerator": {"type": "nvidia-h100", "count": 2},
    "podTemplate": {
        "labels": {"team": "search"},
        "annotations": {"note": "x"},
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {"namespaceSelector": {}, "nothing": None}},
        "priorityClassName": "serving",
        "runtimeClassName": "nvidia",
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [{"name": "prompts", "configMap": {"name": "prompts", "optional": None}}],
        "volumeMounts": [{"name": "prompts", "mountPath": "/prompts"}],
        "resources": {"requests": {"cpu": 8}, "limits": {"memory": "64Gi"}},
    },
}


@pytest.mark.parametrize("fields", [{}, EVERYTHING], ids=["the smallest", "everything set"])
def test_the_pod_passes_pod_security_restricted(fields):
    pod = build(**fields)["spec"]
    assert pod["securityContext"] | {"fsGroupChangePolicy": ""} == {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 1000,
        "fsGroupChangePolicy": "",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for container in [*pod["initContainers"], *pod["containers"]]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
    allowed = {"emptyDir", "secret", "configMap", "persistentVolumeClaim"}
    assert all(volume.keys() - {"name"} <= allowed for volume in pod["volumes"])
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False


@pytest.mark.parametrize("fields", [{}, EVERYTHING], ids=["the smallest", "everything set"])
def test_there_is_no_null_in_it_and_it_is_plain_json(fields):
    template = build(**fields)
    assert None not in list(all_values(template))
    assert json.loads(json.dumps(template)) == template


def test_weights_are_written_by_the_one_container_and_only_read_by_the_other():
    template = build()
    mount = {"name": "weights", "mountPath": "/weights"}
    assert mount | {"readOnly": False} in weights(template)["volumeMounts"]
    assert mount | {"readOnly": True} in engine(template)["volumeMounts"]
    assert named(template["spec"]["volumes"], "weights") == {"name": "weights", "emptyDir": {}}


def test_the_fetcher_is_told_all_that_it_must_know():
    template = build(**EVERYTHING)
    assert weights(template)["command"] == ["stoker", "fetch"]
    assert weights(template)["args"] == [
        *("--uri", "pvc://models/llama", "--to", "/weights", "--revision", "a09a354"),
        *("--sha256", "0" * 64, "--adapter", "a=hf://x/y"),
    ]
    assert weights(template)["envFrom"] == [{"secretRef": {"name": "token"}}]
    mount = {"name": "credentials", "mountPath": "/credentials", "readOnly": True}
    assert mount in weights(template)["volumeMounts"]
    assert "envFrom" not in engine(template)
    assert mount not in engine(template)["volumeMounts"]


def test_sources_inside_the_cluster_are_allowed_by_the_operator_only():
    assert "--allow-cluster-internal" not in weights(build())["args"]
    allowed = build(config=replace(CONFIG, allow_cluster_internal_sources=True))
    assert weights(allowed)["args"][-1] == "--allow-cluster-internal"


@pytest.mark.parametrize(
    ("uri", "sub_path"), [("pvc://models/llama/8b", {"subPath": "llama/8b"}), ("pvc://models", {})]
)
def test_a_claim_is_mounted_read_only_where_weights_are_looked_for(uri, sub_path):
    template = build(model={"uri": uri})
    mount = {"name": "model", "mountPath": "/weights/model", "readOnly": True} | sub_path
    assert mount in weights(template)["volumeMounts"]
    assert mount in engine(template)["volumeMounts"]
    claim = {"claimName": "models", "readOnly": True}
    assert named(template["spec"]["volumes"], "model")["persistentVolumeClaim"] == claim


@pytest.mark.parametrize(
    ("fields", "image"),
    [
        pytest.param({}, "stoker-serving:1", id="the operator's for accelerators"),
        pytest.param({"accelerator": {"type": "cpu"}}, "stoker-serving-cpu:1", id="the operator's for CPUs"),
        pytest.param({"engine": {"image": "acme/x:2"}}, "acme/x:2", id="the user's"),
    ],
)
def test_the_engine_runs_from(fields, image):
    assert engine(build(**fields))["image"] == image


@pytest.mark.parametrize(
    ("fields", "resources", "shared_memory"),
    [
        pytest.param(
            {},
            {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
            "2Gi",
            id="one GPU of the vendor in the type",
        ),
        pytest.param(
            {"accelerator": {"type": "amd-mi300x", "count": 8}},
            {"limits": {"amd.com/gpu": "8"}, "requests": {"amd.com/gpu": "8"}},
            "16Gi",
            id="eight of another vendor",
        ),
        pytest.param({"accelerator": {"type": "cpu"}}, None, "2Gi", id="none for processors"),
        pytest.param(
            EVERYTHING,
            {
                "limits": {"memory": "64Gi", "nvidia.com/gpu": "2"},
                "requests": {"cpu": "8", "nvidia.com/gpu": "2"},
            },
            "4Gi",
            id="beside what the user asks for",
        ),
    ],
)
def test_resources_and_shared_memory(fields, resources, shared_memory):
    template = build(**fields)
    assert engine(template).get("resources") == resources
    shm = named(template["spec"]["volumes"], "shm")
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": shared_memory}


def test_accelerator_nodes_are_tolerated_and_the_users_tolerations_kept():
    assert build(**EVERYTHING)["spec"]["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
    ]
    assert "tolerations" not in build(accelerator={"type": "cpu"})["spec"]


@pytest.mark.parametrize(
    ("fields", "keys"),
    [
        pytest.param({}, ["topology.kubernetes.io/zone", "kubernetes.io/hostname"], id="zone, then node"),
        pytest.param({"availability": {"spread": ["Node"]}}, ["kubernetes.io/hostname"], id="nodes only"),
        pytest.param({"availability": {"spread": []}}, [], id="nothing"),
    ],
)
def test_instances_of_a_revision_are_spread_over(fields, keys):
    wishes = build(**fields)["spec"].get("affinity", {}).get("podAntiAffinity", {}).get(PREFERRED, [])
    assert [wish["podAffinityTerm"]["topologyKey"] for wish in wishes] == keys
    assert all(
        wish["podAffinityTerm"]["labelSelector"]["matchLabels"]
        == {"serving.stoker.dev/revision": "chat-5f3a9c01"}
        for wish in wishes
    )


def test_spreading_adds_to_the_users_own_affinity():
    users = {"weight": 1, "podAffinityTerm": {"topologyKey": "rack"}}
    pod = build(podTemplate={"affinity": {"nodeAffinity": {"a": 1}, "podAntiAffinity": {PREFERRED: [users]}}})
    affinity = pod["spec"]["affinity"]
    assert affinity["nodeAffinity"] == {"a": 1}
    assert affinity["podAntiAffinity"][PREFERRED][0] == users
    assert len(affinity["podAntiAffinity"][PREFERRED]) == 3


def test_the_users_pod_template_is_merged_in():
    template = build(**EVERYTHING)
    pod = template["spec"]
    assert template["metadata"]["labels"]["team"] == "search"
    assert template["metadata"]["annotations"] == {"note": "x"}
    assert pod["nodeSelector"] == {"pool": "gpu"}
    assert pod["affinity"]["podAntiAffinity"]["namespaceSelector"] == {}, "an empty selector means all"
    assert "nothing" not in pod["affinity"]["podAntiAffinity"]
    assert (pod["priorityClassName"], pod["runtimeClassName"]) == ("serving", "nvidia")
    assert named(pod["volumes"], "prompts") == {"name": "prompts", "configMap": {"name": "prompts"}}
    assert {"name": "prompts", "mountPath": "/prompts"} in engine(template)["volumeMounts"]


def test_what_makes_a_pod_an_instance_cannot_be_overridden():
    template = build(
        podTemplate={
            "labels": {"app.kubernetes.io/managed-by": "me", "serving.stoker.dev/revision": "mine"},
            "volumes": [{"name": "weights", "hostPath": {"path": "/"}}],
            "volumeMounts": [{"name": "weights", "mountPath": "/weights"}],
        }
    )
    assert template["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "stoker"
    assert template["metadata"]["labels"]["serving.stoker.dev/revision"] == "chat-5f3a9c01"
    assert named(template["spec"]["volumes"], "weights") == {"name": "weights", "emptyDir": {}}
    assert {"name": "weights", "mountPath": "/weights", "readOnly": True} in engine(template)["volumeMounts"]


def test_the_users_environment_wins_over_a_default_in_the_same_place():
    env = engine(build(engine={"env": [{"name": "HF_HUB_OFFLINE", "value": "0"}, {"name": "A"}]}))["env"]
    assert [item["name"] for item in env] == [
        *("STOKER_REVISION", "STOKER_DRAIN_SECONDS", "POD_NAME", "HOME"),
        *("HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS", "A"),
    ]
    assert named(env, "HF_HUB_OFFLINE")["value"] == "0"
    assert named(env, "STOKER_REVISION")["value"] == "chat-5f3a9c01"


def test_the_engine_serves_no_other_weights_than_those_asked_for():
    env = engine(build(**EVERYTHING))["env"]
    assert named(env, "STOKER_WEIGHTS_DIGEST")["value"] == "sha256:" + "0" * 64
    assert "STOKER_WEIGHTS_DIGEST" not in {item["name"] for item in engine(build())["env"]}


def test_pull_secrets_of_the_operator_and_of_the_user_are_both_there():
    config = replace(CONFIG, image_pull_secrets=("mirror", "registry"))
    assert build(config=config, **EVERYTHING)["spec"]["imagePullSecrets"] == [
        {"name": "mirror"},
        {"name": "registry"},
    ]
    assert "imagePullSecrets" not in build()["spec"]


def test_the_kubelet_waits_longer_for_the_end_than_the_instance_drains():
    template = build()
    drain_s = int(named(engine(template)["env"], "STOKER_DRAIN_SECONDS")["value"])
    assert template["spec"]["terminationGracePeriodSeconds"] == drain_s + 30


@pytest.mark.parametrize(
    ("probe", "path"),
    [("startupProbe", "/startupz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/livez")],
)
def test_probes_ask_the_supervisor_and_not_the_engine(probe, path):
    get = engine(build())[probe]["httpGet"]
    assert (get["path"], get["port"]) == (path, 8081)


def test_an_instance_that_is_ready_is_noticed_within_a_second():
    assert engine(build())["readinessProbe"]["periodSeconds"] == 1
    assert engine(build())["startupProbe"]["periodSeconds"] == 1


@pytest.mark.parametrize("name", ["chat", "llama-3.1-8b", "9b", "x" * 60])
def test_o18_labels_and_account_are_valid_for_any_name(name):
    template = build(service_name=name)
    values = [*template["metadata"]["labels"].values(), template["spec"]["serviceAccountName"]]
    assert all(len(value) <= 63 and "." not in value for value in values)
    assert f"--served-model-name {name}" in " ".join(engine(template)["args"])
