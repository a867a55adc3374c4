"""Does a change of the spec need new pods? Then it is a new revision.

A revision is named by a hash over the fields that end up in the pods, listed here one by one.
Left out is what Stoker acts on outside of them: scaling, queue, rollout, replicas, cache, objectives,
cost, `accelerator.alternatives`, `availability.spareReplicas`. Only what differs from its default is
hashed, so a field that a later version of the API adds changes no existing hash. Nothing of the
operator's own settings is in it, so its images can be upgraded without touching a pod: see
`resources.py` for how an existing revision keeps its pod template.

Rejected: hashing the pod template itself (each release of the operator would restart the fleet), and
hashing the text of the spec (key order, `1` or `1.0`, and a default spelled out would each be a revision).
"""

import hashlib
import json
from typing import Any

from stoker.api.instance_spec import Accelerator
from stoker.api.names import revision_name
from stoker.api.spec import AvailabilitySpec, InferenceServiceSpec

_HASH_LENGTH = 8


def name_revision(spec: InferenceServiceSpec, *, service_name: str) -> str:
    """Name of the revision that a spec asks for."""
    return revision_name(service_name, spec_hash(spec, service_name=service_name))


def spec_hash(spec: InferenceServiceSpec, *, service_name: str) -> str:
    """Eight hexadecimal characters: the same for all specs that give the same pods."""
    text = json.dumps(
        _canonical(_pod_fields(spec, service_name=service_name)), sort_keys=True, separators=(",", ":")
    )
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]


def _pod_fields(spec: InferenceServiceSpec, *, service_name: str) -> dict[str, Any]:
    """The fields that need new pods, without those that have no effect as they are."""
    fields = spec.model_dump(
        mode="json",
        by_alias=True,
        exclude_defaults=True,
        include={
            "model": True,
            "engine": True,
            "accelerator": {"type", "count", "resource"},
            "pod_template": True,
        },
    )
    if spec.model.name == service_name:
        del fields["model"]["name"]
    if spec.accelerator.resource == Accelerator(type=spec.accelerator.type).extended_resource:
        fields["accelerator"].pop("resource", None)
    for name, key in (("aliases", str), ("adapters", lambda adapter: adapter["name"])):
        if name in fields["model"]:
            fields["model"][name].sort(key=key)
    if set(spec.availability.spread) != set(AvailabilitySpec().spread):
        fields["availability"] = {"spread": sorted(spec.availability.spread)}
    return fields


def _canonical(value: Any) -> Any:
    """The value with one spelling for each number, and without what is empty inside a map."""
    if isinstance(value, dict):
        items = {key: _canonical(item) for key, item in value.items()}
        return {key: item for key, item in items.items() if item is not None and item != {}}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
