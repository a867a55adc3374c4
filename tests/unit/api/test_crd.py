"""The CustomResourceDefinitions as a whole."""

import re

import pytest

from stoker.api.crd import NOT_IN_EFFECT, _at, inference_service_crd, node_cache_crd
from stoker.api.rules import INFERENCE_SERVICE_RULES

CRDS = {crd["spec"]["names"]["kind"]: crd for crd in (inference_service_crd(), node_cache_crd())}
IN_EFFECT = (
    "spec.model",
    "spec.engine",
    "spec.accelerator.type",
    "spec.accelerator.count",
    "spec.accelerator.resource",
    "spec.scaling.minReplicas",
    "spec.scaling.maxReplicas",
    "spec.rollout.historyLimit",
    "spec.queue",
    "spec.availability.spread",
    "spec.podTemplate",
    "spec.replicas",
)


def version(crd):
    (only,) = crd["spec"]["versions"]
    return only


def fields(schema, path=""):
    """Every schema of a CRD with its path, item and value types included."""
    yield path, schema
    for name, value in schema.get("properties", {}).items():
        yield from fields(value, f"{path}.{name}".lstrip("."))
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from fields(schema["additionalProperties"], f"{path}{{}}")


FIELDS = {
    (kind, path): schema
    for kind, crd in CRDS.items()
    for path, schema in fields(version(crd)["schema"]["openAPIV3Schema"])
    if path.startswith(("spec", "status"))
}
SPEC = {path: schema for (kind, path), schema in FIELDS.items() if kind == "InferenceService"}
SPEC_LEAVES = [
    path
    for path, schema in SPEC.items()
    if path.startswith("spec.") and "properties" not in schema and not path.endswith(("[]", "{}"))
    if "As Kubernetes defines it" not in schema["description"]
]
"""Fields with a value of their own, but for those of Kubernetes' own objects."""


def is_required(path):
    parent, _, name = path.rpartition(".")
    return name in SPEC[parent].get("required", ())


@pytest.mark.parametrize("where", FIELDS, ids=":".join)
def test_a_schema_is_structural_and_bounded(where):
    schema = FIELDS[where]
    assert not {"nullable", "anyOf", "oneOf", "$ref", "title"} & set(schema)
    assert "default" not in schema or where == ("InferenceService", "status")
    assert isinstance(schema.get("additionalProperties", {}), dict)
    if schema.get("type") == "string" and "enum" not in schema and "format" not in schema:
        assert "maxLength" in schema
    if schema.get("type") == "array":
        assert "maxItems" in schema
    if "additionalProperties" in schema:
        assert "maxProperties" in schema


@pytest.mark.parametrize("where", FIELDS, ids=":".join)
def test_a_field_says_what_it_is_in_sentences(where):
    if not where[1].endswith(("[]", "{}")):
        assert re.match(r"[A-Z`].*\.$", FIELDS[where]["description"])


@pytest.mark.parametrize("path", SPEC_LEAVES)
def test_a_field_of_the_spec_tells_its_default_and_an_example(path):
    description = SPEC[path]["description"]
    assert ("Default: " in description) != is_required(path)
    assert "Example: " in description


@pytest.mark.parametrize("path", NOT_IN_EFFECT)
def test_a_field_without_effect_says_so_and_so_do_the_fields_below_it(path):
    below = [name for name in SPEC if name.startswith(path) and not name.endswith(("[]", "{}"))]
    assert path in below
    for name in below:
        assert f"Not in effect yet: {NOT_IN_EFFECT[path]}." in SPEC[name]["description"]


@pytest.mark.parametrize("path", SPEC_LEAVES)
def test_a_field_with_effect_does_not_say_that_it_has_none(path):
    in_effect = path.startswith(IN_EFFECT)
    assert ("Not in effect yet" in SPEC[path]["description"]) != in_effect


@pytest.mark.parametrize("path", INFERENCE_SERVICE_RULES)
def test_a_rule_says_in_one_line_what_to_change(path):
    for rule in INFERENCE_SERVICE_RULES[path]:
        assert re.fullmatch(r"[^\n]{20,200}[^.]", rule.message)
        assert not rule.message[0].isupper()


def test_a_rule_stands_at_its_field():
    rules = SPEC["spec.scaling"]["x-kubernetes-validations"]
    assert rules[0] == {
        "rule": "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        "message": "raise maxReplicas or lower minReplicas: the most cannot be less than the fewest",
        "fieldPath": ".maxReplicas",
        "reason": "FieldValueInvalid",
    }


def test_a_path_without_a_field_is_an_error():
    with pytest.raises(KeyError, match="inventedLater"):
        _at({"properties": {"spec": {"properties": {}}}}, "spec.inventedLater")


def test_people_find_the_service_by_its_short_name_and_columns():
    crd = CRDS["InferenceService"]
    assert crd["spec"]["names"]["shortNames"] == ["infer"]
    columns = version(crd)["additionalPrinterColumns"]
    shown = [column["name"].upper() for column in columns if not column.get("priority")]
    assert shown == ["MODEL", "VERSION", "READY", "DESIRED", "REASON", "URL", "AGE"]


def test_scaling_tools_find_integers():
    scale = version(CRDS["InferenceService"])["subresources"]["scale"]
    for key in ("specReplicasPath", "statusReplicasPath"):
        assert SPEC[scale[key].removeprefix(".")]["type"] == "integer"
    assert SPEC[scale["labelSelectorPath"].removeprefix(".")]["type"] == "string"


def test_a_node_cache_belongs_to_no_namespace():
    assert CRDS["NodeCache"]["spec"]["scope"] == "Cluster"
