"""Pydantic models as structural schemas."""

from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import ConfigDict, Field, create_model

from stoker.api.base import ApiModel, RawObject, list_map
from stoker.api.schema import NotStructural, structural_schema


class Colour(StrEnum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Part(ApiModel):
    """A part."""

    name: str
    some_size: int = 3


class Cat(ApiModel):
    kind: Literal["cat"]


class Dog(ApiModel):
    kind: Literal["dog"]


class Strict(ApiModel):
    model_config = ConfigDict(extra="forbid")
    size: int


class Tree(ApiModel):
    branches: "tuple[Tree, ...]"


def field_schema(annotation, default=..., **limits):
    """What a field `some_field` of a model becomes, and whether the model requires it."""
    model = create_model("Sample", __base__=ApiModel, some_field=(annotation, Field(default, **limits)))
    schema = structural_schema(model)
    return schema["properties"]["someField"], "someField" in schema.get("required", [])


PART_FIELDS = {"name": {"type": "string"}, "someSize": {"type": "integer", "description": "Default: 3."}}


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        pytest.param(str, {"type": "string"}, id="a string, without a title"),
        pytest.param(bool, {"type": "boolean"}, id="a boolean"),
        pytest.param(
            Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}, id="bounds"
        ),
        pytest.param(
            Annotated[float, Field(gt=0, lt=100)],
            {
                "type": "number",
                "minimum": 0,
                "exclusiveMinimum": True,
                "maximum": 100,
                "exclusiveMaximum": True,
            },
            id="exclusive bounds are booleans beside the bound",
        ),
        pytest.param(
            Annotated[str, Field(min_length=1, max_length=5, pattern="^a")],
            {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^a"},
            id="limits of a string",
        ),
        pytest.param(
            Colour,
            {"type": "string", "enum": ["red", "blue"], "description": "A colour."},
            id="a reference is replaced by what it names",
        ),
        pytest.param(Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, id="a choice of words"),
        pytest.param(Literal["a"], {"type": "string", "enum": ["a"]}, id="a constant is a choice of one"),
        pytest.param(datetime, {"type": "string", "format": "date-time"}, id="a time"),
        pytest.param(
            Part,
            {"type": "object", "description": "A part.", "required": ["name"], "properties": PART_FIELDS},
            id="an object",
        ),
        pytest.param(
            tuple[str, ...],
            {"type": "array", "items": {"type": "string"}},
            id="a tuple of any length is a list",
        ),
        pytest.param(
            set[str],
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            id="a set",
        ),
        pytest.param(
            Annotated[dict[str, int], Field(max_length=3)],
            {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3},
            id="a map",
        ),
        pytest.param(
            dict[str, Any],
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            id="a map of anything is kept as it is",
        ),
        pytest.param(
            RawObject,
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            id="an object of Kubernetes is kept as it is",
        ),
        pytest.param(
            int | Annotated[str, Field(max_length=8)],
            {"maxLength": 8, "x-kubernetes-int-or-string": True},
            id="a number or a string",
        ),
        pytest.param(
            Strict,
            {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer"}}},
            id="the API server prunes what is unknown, so nothing forbids it",
        ),
    ],
)
def test_a_field_becomes_what_the_api_server_takes(annotation, expected):
    assert field_schema(annotation) == (expected, True)


def test_a_list_of_objects_keeps_its_keys():
    schema, _ = field_schema(tuple[Part, ...], json_schema_extra=list_map("name"))
    assert schema["x-kubernetes-list-type"] == "map"
    assert schema["x-kubernetes-list-map-keys"] == ["name"]


@pytest.mark.parametrize(
    ("annotation", "default", "description"),
    [
        pytest.param(int, 3, "Default: 3.", id="a number"),
        pytest.param(float, 2.0, "Default: 2.", id="a number without useless digits"),
        pytest.param(bool, False, "Default: false.", id="a boolean as in YAML"),
        pytest.param(Colour, Colour.RED, "A colour. Default: red.", id="a word"),
        pytest.param(tuple[str, ...], (), "Default: none.", id="an empty list"),
        pytest.param(dict[str, str], {}, "Default: none.", id="an empty map"),
        pytest.param(
            tuple[Part, ...],
            (Part(name="a"), Part(name="b", some_size=1)),
            "Default: [{name: a, someSize: 3}, {name: b, someSize: 1}].",
            id="a list of objects in their YAML names",
        ),
        pytest.param(Part, Part(name="a"), "A part.", id="an object's fields tell theirs"),
        pytest.param(int | None, None, None, id="None is told in words, by who writes the field"),
    ],
)
def test_a_default_is_told_and_left_to_python(annotation, default, description):
    schema, required = field_schema(annotation, default)
    assert schema.get("description") == description
    assert "default" not in schema
    assert not required


def test_a_description_is_one_paragraph_with_default_and_example():
    schema, _ = field_schema(int, 3, description="Size of it,\n    in bytes.", examples=[5, 6])
    assert schema["description"] == "Size of it, in bytes. Default: 3. Example: 5."


def test_the_description_of_a_field_wins_over_that_of_its_type():
    schema, _ = field_schema(Part, description="The spare part.")
    assert schema["description"] == "The spare part."


def test_optional_is_not_nullable():
    schema, required = field_schema(Part | None, None)
    assert schema["type"] == "object"
    assert "nullable" not in schema
    assert not required


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        pytest.param(
            Annotated[Cat | Dog, Field(discriminator="kind")], "a union: make each case", id="union by kind"
        ),
        pytest.param(Cat | Dog, "a union of types", id="union of objects"),
        pytest.param(int | float, "a union of types", id="union of numbers"),
        pytest.param(tuple[int, str], "a tuple of fixed length", id="tuple"),
        pytest.param(Decimal, "a union of types", id="decimal number"),
        pytest.param(timedelta, "the format duration", id="duration"),
        pytest.param(bytes, "the format binary", id="bytes"),
        pytest.param(
            Annotated[float, Field(ge=0.5)], "minimum 0.5: the API server cuts it", id="broken bound"
        ),
        pytest.param(Any, "no one type", id="anything at all"),
        pytest.param(Literal["a", 1], "no one type", id="words and numbers"),
        pytest.param(int | None, "None without being the default", id="null that must be given"),
        pytest.param(tuple[int | None, ...], "None without being the default", id="null in a list"),
        pytest.param(Tree, "Tree contains itself", id="recursion"),
        pytest.param(
            dict[Annotated[str, Field(pattern="^a")], str],
            "a limit on the keys of a map",
            id="pattern for keys",
        ),
        pytest.param(
            dict[Annotated[str, Field(max_length=3)], str],
            "a limit on the keys of a map",
            id="length of keys",
        ),
        pytest.param(Annotated[int, Field(multiple_of=2)], "no keyword `multipleOf`", id="unknown keyword"),
        pytest.param(
            Annotated[tuple[Part, ...], Field(json_schema_extra=list_map("someSize"))],
            "someSize is the key of its items, so they must require it",
            id="a key that may be missing",
        ),
    ],
)
def test_what_a_crd_cannot_express_is_refused_by_its_path(annotation, problem):
    with pytest.raises(NotStructural, match=problem) as refusal:
        field_schema(annotation)
    assert str(refusal.value).startswith("someField")


def test_a_refusal_names_the_whole_path():
    model = create_model("Outer", __base__=ApiModel, outer_list=(tuple[dict[str, Cat | Dog], ...], ...))
    with pytest.raises(NotStructural, match=r"^outerList\[\]\{\} cannot be in a CRD: a union of types"):
        structural_schema(model)
