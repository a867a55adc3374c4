"""What the models of all kinds have in common.

The models read live objects, so they are lenient where the API server is strict: a field they do
not know is left out (an older operator beside a newer CRD), and both spellings of a name are taken.
They are frozen, so that a decision cannot change its input.

Every default in a model is the effective one and stands there only. None of a spec goes into the CRD:
the API server would write it into each object, where it freezes what was usual that day and shows up
in GitOps tools as a change that nobody made.
"""

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """An object of our API; its attribute docstrings become the descriptions in the CRD."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )


def list_map(*keys: str) -> dict[str, Any]:
    """Marks a list of objects as merged item by item, without two items of the same keys."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


LIST_SET: dict[str, Any] = {"x-kubernetes-list-type": "set"}
"""Marks a list of scalars as one without repetitions."""


_KUBERNETES_STRING = {"type": "string", "maxLength": 253, "description": "As Kubernetes defines it."}


def _raw(*keys: str) -> WithJsonSchema:
    schema: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if keys:
        schema["properties"] = dict.fromkeys(keys, _KUBERNETES_STRING)
        schema["required"] = list(keys)
    return WithJsonSchema(schema)


RawObject: TypeAlias = Annotated[dict[str, Any], _raw()]
"""An object that Kubernetes itself defines and checks, taken as it is."""
NamedRawObject: TypeAlias = Annotated[dict[str, Any], _raw("name")]
"""The same, as an item of a list with `name` for its key."""
RawVolumeMount: TypeAlias = Annotated[dict[str, Any], _raw("name", "mountPath")]
"""The same, as an item of a list with `mountPath` for its key."""

Name: TypeAlias = Annotated[str, Field(max_length=63)]
"""A name that is also a label's value."""
ObjectName: TypeAlias = Annotated[str, Field(max_length=253)]
"""The name of a Kubernetes object, or the key of a label."""
Uri: TypeAlias = Annotated[str, Field(max_length=1024)]
ShortText: TypeAlias = Annotated[str, Field(max_length=256)]
Message: TypeAlias = Annotated[str, Field(max_length=32_768)]
"""As long as the message of a condition may be (metav1.Condition)."""

Seconds: TypeAlias = Annotated[int, Field(ge=0, le=86_400)]
"""At most a day."""
Percent: TypeAlias = Annotated[float, Field(ge=50, lt=100)]
"""A share of requests; 100 can be promised by nobody."""
Quantity: TypeAlias = int | Annotated[str, Field(max_length=64)]
"""A Kubernetes quantity: `2`, `500m`, `16Gi`."""

Labels: TypeAlias = Annotated[dict[str, Name], Field(max_length=64)]
Annotations: TypeAlias = Annotated[dict[str, Message], Field(max_length=64)]
Quantities: TypeAlias = Annotated[dict[str, Quantity], Field(max_length=16)]
