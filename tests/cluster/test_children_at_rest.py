"""What `core` wants, against what a real API server makes of it: written once, then never again.

The API server adds defaults, spells quantities its own way, and keeps lists in its own order. Each
spec here is reconciled, its children are applied and read back, and the next looks must be silent.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from kubernetes.aio.client import Configuration
from tests.unit.core.capacity.real_models import config

from stoker.api import names
from stoker.core.config import Config
from stoker.core.model import Apply, ModelFacts, ModelReading, Observed
from stoker.core.reconcile import reconcile
from stoker.core.validation import read_spec
from stoker.kube import access
from stoker.kube.client import Client
from stoker.kube.resources import CHILDREN, CONFIG_MAPS, INFERENCE_SERVICES

_EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
_CONFIG = Config(
    stoker_image="stoker:1",
    serving_image="stoker-serving:1",
    serving_image_cpu="stoker-serving-cpu:1",
    image_pull_secrets=("mirror",),
    allow_cluster_internal_sources=True,
)
_FACTS = ModelFacts(version="a09a354", config=config("Qwen--Qwen2.5-0.5B-Instruct"), weights=None)
_NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)

_UNUSUAL = {
    "model": {
        "uri": "pvc://models/llama",
        "credentialsSecret": "token",
        "adapters": [{"name": "b", "uri": "s3://bucket/b"}, {"name": "a", "uri": "s3://bucket/a"}],
    },
    "accelerator": {"type": "nvidia-h100", "count": 2},
    "engine": {
        "args": ["--swap-space", "0"],
        "env": [
            {"name": "EMPTY", "value": ""},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
    },
    "podTemplate": {
        "labels": {"team": ""},
        "tolerations": [
            {"key": "spot"},
            {"operator": "Exists", "tolerationSeconds": 30, "effect": "NoExecute"},
        ],
        "nodeSelector": {"pool": "gpu"},
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "podAffinityTerm": {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                            "namespaceSelector": {},
                        },
                    }
                ]
            }
        },
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [
            {"name": "prompts", "configMap": {"name": "prompts", "defaultMode": 0, "optional": False}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "2048Mi"}},
            {
                "name": "words",
                "downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.name"}}]},
            },
        ],
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "prompts", "mountPath": "/prompts", "readOnly": False},
            {"name": "words", "mountPath": "/words"},
        ],
        "resources": {
            "requests": {"cpu": "1000m", "memory": "1024Mi", "ephemeral-storage": "1e9"},
            "limits": {"cpu": 2, "memory": "64.0Gi"},
        },
    },
}


@pytest.fixture
async def client(api_server):
    configuration: Configuration = await access.load(str(api_server))
    async with Client(configuration) as client:
        yield client


async def observe(client, namespace, name):
    label = f"{names.SERVICE_LABEL}={names.child_name(name)}"
    deployments, pods, services, budgets, accounts = [
        tuple(await client.list(resource, namespace=namespace, label_selector=label)) for resource in CHILDREN
    ]
    service = await client.get(INFERENCE_SERVICES, namespace=namespace, name=name)
    memory = await client.get(CONFIG_MAPS, namespace=namespace, name=names.model_files_name(name))
    return Observed(
        service=service,
        config_maps=(memory,) if memory else (),
        reading=ModelReading(revision=read_spec(service, config=_CONFIG).revision, answer=_FACTS),
        deployments=deployments,
        pods=pods,
        services=services,
        disruption_budgets=budgets,
        service_accounts=accounts,
    )


async def look(client, namespace, name, *, now):
    """One reconcile, carried out; its actions, and whether the status had to be written."""
    observed = await observe(client, namespace, name)
    plan = reconcile(observed, config=_CONFIG, now=now)
    for action in plan.actions:
        if isinstance(action, Apply):
            await client.apply(action.object, field_manager=names.FIELD_MANAGER)
        else:
            await client.delete(action.object)
    changed = plan.status != observed.service["status"]
    if changed:
        metadata = {"namespace": namespace, "name": name}
        whole = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": metadata,
            "status": plan.status,
        }
        await client.apply(whole, field_manager=names.STATUS_FIELD_MANAGER, subresource="status")
    return [f"{action.object['kind']}: {action.reason}" for action in plan.actions], changed


async def apply(client, namespace, name, spec):
    metadata = {"namespace": namespace, "name": name}
    service = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": metadata, "spec": spec}
    await client.apply(service, field_manager="a-person")


async def settle(client, namespace, name, *, now):
    """Looks until one finds nothing to do; controllers of the cluster may still write meanwhile."""
    for _ in range(20):
        if await look(client, namespace, name, now=now) == ([], False):
            return
    raise AssertionError("it does not come to rest")


def specs():
    for path in _EXAMPLES:
        for example in yaml.safe_load_all(path.read_text()):
            if example["kind"] == names.KIND:
                yield pytest.param(example["spec"], id=f"{path.stem} {example['metadata']['name']}")
    yield pytest.param(_UNUSUAL, id="everything that the API server spells in its own way")


@pytest.mark.parametrize("spec", list(specs()))
async def test_children_are_applied_once_and_then_left_alone(client, namespace, spec):
    await apply(client, namespace, "chat", spec)
    actions, _ = await look(client, namespace, "chat", now=_NOW)
    assert len(actions) == 5
    again, _ = await look(client, namespace, "chat", now=_NOW + timedelta(hours=1))
    assert again == []
    await settle(client, namespace, "chat", now=_NOW + timedelta(hours=2))


async def test_a_long_history_keeps_its_order(client, namespace):
    """Revisions and decisions come and go; the API server must give the lists back as they were written."""
    for count in (1, 2, 3, 1):
        for argument in ("--b", "--a", "--c"):
            spec = {"model": {"uri": "hf://a/b"}, "accelerator": {"type": "cpu"}, "replicas": count}
            await apply(client, namespace, "chat", spec | {"engine": {"args": [argument]}})
            now = _NOW + timedelta(minutes=count)
            await settle(client, namespace, "chat", now=now)
    status = (await client.get(INFERENCE_SERVICES, namespace=namespace, name="chat"))["status"]
    assert len(status["revisions"]) == 3
    assert [decision["desired"] for decision in status["scaling"]["decisions"]] == [1, 3, 2, 1]
