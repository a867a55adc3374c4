"""How a pydantic model becomes the structural schema of a CustomResourceDefinition.

A structural schema (Kubernetes' word) is a small part of OpenAPI v3: no references, one type for
each value, no unions. Pydantic writes JSON Schema 2020-12. What has an equivalent is rewritten; what
has none is refused here with the field's path, as the API server would refuse the whole CRD or,
worse, silently not check the field.

Defaults and examples become sentences of the description, where `kubectl explain` shows them; why no
default goes into the schema is said in `base.py`.

Rejected: `nullable: true` for optional fields, as `kubectl explain` then loses the type;
generators from PyPI, which copy pydantic's output as it is.
"""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic import BaseModel

Schema: TypeAlias = dict[str, Any]

_KEPT = (
    "type",
    "format",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "maxProperties",
    "required",
)
"""Keywords that mean the same in both, in the order in which they are written."""

_REWRITTEN = {
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "default",
    "description",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "items",
    "properties",
    "title",
    "uniqueItems",
}

_UNION = "a union: make each case an optional field, and a CEL rule that says which may be given"
_REFUSED: Mapping[str, str] = {
    "oneOf": _UNION,
    "discriminator": _UNION,
    "prefixItems": "a tuple of fixed length: make it an object with named fields",
    "propertyNames": "a limit on the keys of a map: use a CEL rule",
    "patternProperties": "a limit on the keys of a map: use a CEL rule",
}


class NotStructural(ValueError):
    """A model holds something that a CRD cannot express."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path or 'the object'} cannot be in a CRD: {problem}")


def structural_schema(model: type[BaseModel]) -> Schema:
    """The structural schema of `model`, as for `openAPIV3Schema`.

    Raises NotStructural, naming the field, for what a CRD cannot express.
    """
    schema = model.model_json_schema(by_alias=True, mode="validation")
    definitions = schema.pop("$defs", {})
    return _Converter(definitions).convert(schema, path="", within=())


class _Converter:
    """Walks the JSON schema of one model, with its definitions at hand."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def convert(self, schema: Schema, *, path: str, within: tuple[str, ...]) -> Schema:
        """The structural form of `schema`; `within` names the definitions that it is a part of."""
        schema, within = self._resolved(schema, path=path, within=within)
        _refuse_keywords(schema, path=path)
        result: Schema = {}
        if description := _description(schema):
            result["description"] = description
        result |= {keyword: schema[keyword] for keyword in _KEPT if keyword in schema}
        result |= _rewritten_limits(schema)
        if "properties" in schema:
            result["properties"] = {
                name: self.convert(value, path=f"{path}.{name}".lstrip("."), within=within)
                for name, value in schema["properties"].items()
            }
        elif schema.get("additionalProperties") is True:
            result["x-kubernetes-preserve-unknown-fields"] = True
        elif values := schema.get("additionalProperties"):
            result["additionalProperties"] = self.convert(values, path=f"{path}{{}}", within=within)
        if "items" in schema:
            result["items"] = self.convert(schema["items"], path=f"{path}[]", within=within)
        result |= {key: value for key, value in schema.items() if key.startswith("x-kubernetes-")}
        _check(result, path=path)
        return result

    def _resolved(
        self, schema: Schema, *, path: str, within: tuple[str, ...]
    ) -> tuple[Schema, tuple[str, ...]]:
        """`schema` without references and unions; what stands beside them wins."""
        while "$ref" in schema or "anyOf" in schema:
            beside = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}
            if "$ref" in schema:
                name = schema["$ref"].removeprefix("#/$defs/")
                if name in within:
                    raise NotStructural(path, f"{name} contains itself")
                within = (*within, name)
                schema = self._definitions[name] | beside
            else:
                schema = _without_union(schema, path=path) | beside
        return schema, within


def _without_union(schema: Schema, *, path: str) -> Schema:
    """The one case that is left of a union with None, or what stands for `int | str`."""
    cases: list[Schema] = [case for case in schema["anyOf"] if case != {"type": "null"}]
    if len(cases) < len(schema["anyOf"]) and schema.get("default", ...) is not None:
        raise NotStructural(path, "None without being the default: the API server drops null")
    if len(cases) == 1:
        return cases[0]
    if sorted(case.get("type", "") for case in cases) == ["integer", "string"]:
        limits = {key: value for case in cases for key, value in case.items() if key != "type"}
        return limits | {"x-kubernetes-int-or-string": True}
    raise NotStructural(path, "a union of types, other than with None or of int and str")


def _refuse_keywords(schema: Schema, *, path: str) -> None:
    for keyword in schema:
        if keyword in _REFUSED:
            raise NotStructural(path, _REFUSED[keyword])
        if keyword not in _KEPT and keyword not in _REWRITTEN and not keyword.startswith("x-kubernetes-"):
            raise NotStructural(path, f"it has no keyword `{keyword}`")
    if schema.get("format", "date-time") != "date-time":
        raise NotStructural(
            path, f"it does not check the format {schema['format']}; use an integer or a string"
        )


def _rewritten_limits(schema: Schema) -> Schema:
    """Limits that both can express, each in its own way."""
    limits: Schema = {}
    for draft_2020, draft_4 in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if draft_2020 in schema:
            limits |= {draft_4: schema[draft_2020], draft_2020: True}
    if "const" in schema:
        limits["enum"] = [schema["const"]]
    if schema.get("uniqueItems"):
        limits["x-kubernetes-list-type"] = "set"
    return limits


def _check(result: Schema, *, path: str) -> None:
    for bound in ("minimum", "maximum"):
        if result.get(bound, 0) % 1:
            raise NotStructural(
                path, f"{bound} {result[bound]}: the API server cuts it for whole numbers; use CEL"
            )
    if "type" not in result and "x-kubernetes-int-or-string" not in result:
        raise NotStructural(path, "it has no one type; for an object taken as it is use dict[str, Any]")
    for key in result.get("x-kubernetes-list-map-keys", ()):
        if key not in result["items"].get("required", ()):
            raise NotStructural(path, f"{key} is the key of its items, so they must require it")


def _description(schema: Schema) -> str:
    """The description as one paragraph, with the default and one example at its end."""
    sentences = [" ".join(schema.get("description", "").split())]
    default = schema.get("default")
    if default in ([], ()) or (default == {} and "properties" not in schema):
        sentences.append("Default: none.")
    elif default is not None and not isinstance(default, dict):
        sentences.append(f"Default: {_as_text(default)}.")
    if examples := schema.get("examples"):
        sentences.append(f"Example: {_as_text(examples[0])}.")
    return " ".join(sentence for sentence in sentences if sentence)


def _as_text(value: object) -> str:
    """A value as one would write it in YAML.

    Example: `balanced` -> `balanced`; 2.0 -> `2`; [{"weight": 10}] -> `[{weight: 10}]`.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return "[" + ", ".join(_as_text(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_as_text(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)
