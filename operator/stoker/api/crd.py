"""The CustomResourceDefinitions of Stoker's kinds, complete, as plain objects.

What is not a field's own matter is here: names, printer columns, subresources, and which fields wait
for a later release. `make crds` writes the result to `crds/`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from stoker.api.names import GROUP, KIND, NODE_CACHE_KIND, NODE_CACHE_PLURAL, PLURAL, VERSION
from stoker.api.rules import INFERENCE_SERVICE_RULES, Rule
from stoker.api.schema import Schema, structural_schema
from stoker.api.v1alpha1 import InferenceService, NodeCache

NOT_IN_EFFECT: Mapping[str, str] = {
    "spec.accelerator.alternatives": "instances run on the first choice only",
    "spec.scaling.objective": "there is no scaler",
    "spec.scaling.warmReplicas": "there is no scaler",
    "spec.scaling.concurrency": "there is no scaler",
    "spec.scaling.holdSeconds": "there is no scaler",
    "spec.scaling.schedule": "there is no scaler",
    "spec.scaling.zeroAfterSeconds": "there is no scaler",
    "spec.rollout.strategy": "traffic moves at once when the new revision has all its replicas",
    "spec.rollout.steps": "traffic moves at once when the new revision has all its replicas",
    "spec.rollout.maxSurge": "a new revision starts beside the old one",
    "spec.rollout.analysis": "revisions are not compared",
    "spec.rollout.onFailure": "revisions are not compared",
    "spec.rollout.paused": "a rollout goes on when the new revision is Ready",
    "spec.rollout.keepPreviousSeconds": "the old revision leaves when the new one has taken over",
    "spec.rollbackTo": "apply the earlier spec to go back",
    "spec.availability.spareReplicas": "there is no scaler",
    "spec.cache": "each instance fetches its own weights",
    "spec.objectives": "nothing is measured against them",
    "spec.cost": "nothing is computed from it",
    "status.startup": "it stays empty",
    "status.cache": "it stays empty",
}
"""Fields that are accepted and do nothing in this release, and what holds instead."""

_NOT_YET_OBSERVED = {"observedGeneration": -1}
"""Status of an object that the operator has not seen yet. Without one, kstatus takes the object for
ready, and `helm --wait` and Flux would not wait for it."""

_COLUMNS = (
    ("Model", ".spec.model.uri", "string", "Where the weights come from"),
    ("Version", ".status.modelVersion", "string", "Version of the weights that serve"),
    ("Ready", ".status.ready", "string", "Ready and wanted instances"),
    ("Desired", ".status.scaling.desired", "integer", "Replicas that are wanted"),
    ("Reason", '.status.conditions[?(@.type=="Ready")].reason', "string", "Why it is Ready, or not"),
    ("URL", ".status.url", "string", "Where clients send requests"),
    ("Age", ".metadata.creationTimestamp", "date", "Time since it was created"),
)
_WIDE_COLUMNS = (
    ("Accelerator", ".spec.accelerator.type", "string", "Accelerator of an instance"),
    ("Message", '.status.conditions[?(@.type=="Ready")].message', "string", "Why, in a sentence"),
)
_NODE_CACHE_COLUMNS = (
    ("Free", ".status.freeBytes", "integer", "Bytes left in the cache's budget"),
    ("Age", ".metadata.creationTimestamp", "date", "Time since it was created"),
)


def inference_service_crd() -> dict[str, Any]:
    """The CRD of `InferenceService`."""
    schema = _object_schema(InferenceService)
    schema["properties"]["status"]["default"] = _NOT_YET_OBSERVED
    for path, rules in INFERENCE_SERVICE_RULES.items():
        _add_rules(_at(schema, path), rules)
    for path, instead in NOT_IN_EFFECT.items():
        for field in _with_fields_below(_at(schema, path)):
            field["description"] = f"{field['description']} Not in effect yet: {instead}."
    return _crd(
        kind=KIND,
        plural=PLURAL,
        scope="Namespaced",
        short_names=["infer"],
        schema=schema,
        columns=[_column(*column) for column in _COLUMNS]
        + [_column(*column) | {"priority": 1} for column in _WIDE_COLUMNS],
        scale={
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    )


def node_cache_crd() -> dict[str, Any]:
    """The CRD of `NodeCache`."""
    return _crd(
        kind=NODE_CACHE_KIND,
        plural=NODE_CACHE_PLURAL,
        scope="Cluster",
        short_names=[],
        schema=_object_schema(NodeCache),
        columns=[_column(*column) for column in _NODE_CACHE_COLUMNS],
        scale=None,
    )


def _object_schema(model: type[BaseModel]) -> Schema:
    """The schema of a whole object; Kubernetes itself looks after the first three fields."""
    schema = structural_schema(model)
    schema["properties"] |= {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    return schema


def _at(schema: Schema, path: str) -> Schema:
    """The schema of the field at `path`, such as `spec.model.aliases[]`; a KeyError if there is none."""
    for name in path.split(".") if path else ():
        schema = schema["properties"][name.removesuffix("[]")]
        if name.endswith("[]"):
            schema = schema["items"]
    return schema


def _add_rules(schema: Schema, rules: tuple[Rule, ...]) -> None:
    schema["x-kubernetes-validations"] = [rule.as_schema() for rule in rules]


def _with_fields_below(schema: Schema) -> Iterator[Schema]:
    yield schema
    for field in schema.get("items", schema).get("properties", {}).values():
        yield from _with_fields_below(field)


def _column(name: str, json_path: str, column_type: str, description: str) -> dict[str, Any]:
    return {"name": name, "type": column_type, "jsonPath": json_path, "description": description}


def _crd(
    *,
    kind: str,
    plural: str,
    scope: str,
    short_names: list[str],
    schema: Schema,
    columns: list[dict[str, Any]],
    scale: dict[str, str] | None,
) -> dict[str, Any]:
    names: dict[str, Any] = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        "categories": ["stoker"],
    }
    if short_names:
        names["shortNames"] = short_names
    subresources: dict[str, Any] = {"status": {}}
    if scale:
        subresources["scale"] = scale
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": names,
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": columns,
                    "subresources": subresources,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
