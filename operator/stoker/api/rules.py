"""What the API server checks of an `InferenceService` beyond types and ranges: the CEL rules.

The API server refuses a bad object before anybody acts on it, and `kubectl apply` shows the message.
So a message says what to change, and repeats neither the path nor the value, which the API server
puts in front of it. A rule looks only at what is given (`has`), as the CRD has no defaults.

Rejected: `pattern`, whose message is the regular expression; an admission webhook, which needs a
certificate and can block its own cluster; `messageExpression`, as the API server takes a number in a
sentence for one of unlimited length and refuses the CRD for its cost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.api.instance_spec import RESERVED_FLAGS
from stoker.api.names import GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One CEL rule (`x-kubernetes-validations`)."""

    rule: str
    """CEL expression that is true for a good value, which is `self`."""
    message: str
    """What to change, for people."""
    field_path: str | None = None
    """The field to blame, below the one that carries the rule."""
    reason: str = "FieldValueInvalid"
    """`FieldValueInvalid`, `FieldValueForbidden` or `FieldValueRequired`; with `FieldValueDuplicate`
    the API server would not show the message."""

    def as_schema(self) -> dict[str, Any]:
        """The rule as it stands in a CRD."""
        fields = {
            "rule": self.rule,
            "message": self.message,
            "fieldPath": self.field_path,
            "reason": self.reason,
        }
        return {key: value for key, value in fields.items() if value is not None}


def _shape(expression: str, message: str) -> Rule:
    return Rule(rule=f"self.matches(r'''^({expression})$''')", message=message)


def _scheme(name: str, expression: str, message: str) -> Rule:
    return Rule(
        rule=f"!self.startsWith('{name}://') || self.matches(r'''^{name}://{expression}$''')",
        message=f"{name}:// is followed by {message}",
    )


_PATH = r"[A-Za-z0-9._~!$&()*+,;=:@/-]+"
"""Plain characters only: no blank, no query or fragment, and no percent sign that could hide a slash."""
_BUCKET = rf"[a-z0-9][a-z0-9._-]{{1,61}}[a-z0-9]/{_PATH}"
_OBJECT_NAME = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_SCHEMES = ("hf", "s3", "gs", "az", "oci", "https", "pvc")

_URI = (
    Rule(
        rule=f"self.matches(r'''^({'|'.join(_SCHEMES)})://''')",
        message="start the address with " + ", ".join(f"{scheme}://" for scheme in _SCHEMES),
    ),
    Rule(
        rule=r"!self.matches(r'''/\.{1,2}(/|$)|[^:]//''')",
        message="write the path without . or .. or nothing between two slashes",
    ),
    _scheme(
        "hf",
        r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*",
        "OWNER/NAME, as in hf://Qwen/Qwen2.5-7B-Instruct; a commit or tag goes into model.revision",
    ),
    _scheme("s3", _BUCKET, "BUCKET/PATH, as in s3://acme-models/llama-3.1-8b"),
    _scheme("gs", _BUCKET, "BUCKET/PATH, as in gs://acme-models/llama-3.1-8b"),
    _scheme("az", _BUCKET, "CONTAINER/PATH, as in az://models/llama-3.1-8b"),
    _scheme(
        "oci",
        r"[A-Za-z0-9.-]+(:[0-9]{1,5})?/[a-z0-9][a-z0-9._/-]*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?"
        r"(@sha256:[a-f0-9]{64})?",
        "REGISTRY/NAME with :TAG or @sha256:DIGEST, as in oci://registry.acme.io/models/llama:3.1-8b",
    ),
    _scheme(
        "https",
        rf"[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{{1,5}})?/{_PATH}",
        "HOST/PATH in plain characters, without user, query and fragment, as in "
        "https://models.acme.io/llama-3.1-8b; keys go into the Secret that model.credentialsSecret names",
    ),
    _scheme(
        "pvc",
        rf"{_OBJECT_NAME}(/{_PATH})?",
        "CLAIM or CLAIM/PATH, as in pvc://models/llama-3.1-8b, with a claim of this namespace",
    ),
)

_MODEL_NAME = _shape(
    r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*",
    "start the name with a letter or digit and go on with letters, digits and . _ : / @ + -",
)
_ENGINE_WORD = _shape(
    r"[A-Za-z0-9][A-Za-z0-9._-]*",
    "use one word as the engine knows it, such as fp8: letters, digits and . _ -",
)
_LABEL_VALUES = Rule(
    rule=r"self.all(key, self[key].matches(r'''^(([A-Za-z0-9][A-Za-z0-9._-]*)?[A-Za-z0-9])?$'''))",
    message="use label values of letters, digits and . _ - that start and end with a letter or digit",
)
_TIME_OF_DAY = _shape(
    r"([01][0-9]|2[0-3]):[0-5][0-9]", 'write the time as "HH:MM" from "00:00" to "23:59", in quotes'
)

_ACCELERATOR = (
    Rule(
        rule="self.type != 'cpu' || !has(self.resource)",
        message="remove resource, or name an accelerator in type: cpu has no extended resource",
        field_path=".resource",
        reason="FieldValueForbidden",
    ),
    Rule(
        rule="self.type != 'cpu' || !has(self.count) || self.count == 1",
        message="set count to 1, or name an accelerator in type: a model is not split over processors",
        field_path=".count",
    ),
    Rule(
        rule="has(self.resource) || self.type.matches(r'''^(cpu$|nvidia-|amd-)''')",
        message="name the extended resource in resource, as type starts with neither nvidia- nor amd-",
        field_path=".type",
        reason="FieldValueRequired",
    ),
)
_ACCELERATOR_TYPE = _shape(
    r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", "use lower-case letters, digits and dashes, as in nvidia-l40s, or cpu"
)
_RESOURCE = _shape(
    r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?",
    "write the extended resource as DOMAIN/NAME, as in nvidia.com/gpu",
)


_MOST = (
    "(has(self.maxReplicas) ? self.maxReplicas"
    " : has(self.minReplicas) && self.minReplicas > 1 ? self.minReplicas : 1)"
)
"""Effective `maxReplicas`, as `ScalingSpec` has it."""

_SCALING = (
    Rule(
        rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        message="raise maxReplicas or lower minReplicas: the most cannot be less than the fewest",
        field_path=".maxReplicas",
    ),
    Rule(
        rule=f"!has(self.warmReplicas) || self.warmReplicas <= {_MOST}",
        message="raise maxReplicas or lower warmReplicas, as the warm ones are among the most",
        field_path=".warmReplicas",
    ),
    Rule(
        rule=f"!has(self.schedule) || self.schedule.all(entry, entry.minReplicas <= {_MOST})",
        message="raise maxReplicas to the highest minReplicas of the schedule",
        field_path=".schedule",
    ),
    Rule(
        rule="!has(self.zeroAfterSeconds) || (has(self.minReplicas) && self.minReplicas == 0)",
        message="set minReplicas to 0, as zeroAfterSeconds has no meaning otherwise",
        field_path=".zeroAfterSeconds",
    ),
)

_ENGINE_ARGS = Rule(
    rule=f"self.all(arg, !arg.matches(r'''^--({'|'.join(RESERVED_FLAGS).replace('-', '[_-]')})(=|$)'''))",
    message="remove --model and --served-model-name, which model.uri and model.name say, and --host, "
    "--port, --uds and --ssl-*, as Stoker says where an instance listens",
    reason="FieldValueForbidden",
)

_VOLUMES = (
    Rule(
        rule="self.all(volume, !(volume.name in ['weights', 'model', 'credentials', 'tmp', 'shm']))",
        message="give the volume another name: weights, model, credentials, tmp and shm are Stoker's own",
        reason="FieldValueForbidden",
    ),
)

_RESOURCES = (
    Rule(
        rule="self.all(name, !(name in ['nvidia.com/gpu', 'amd.com/gpu']))",
        message="say the number of accelerators in accelerator.count, not here",
        reason="FieldValueForbidden",
    ),
    Rule(
        rule="self.all(name, type(self[name]) == int || isQuantity(self[name]))",
        message="write quantities as Kubernetes does: 2, 500m, 16Gi",
    ),
)

INFERENCE_SERVICE_RULES: Mapping[str, tuple[Rule, ...]] = {
    "": (
        Rule(
            rule="self.metadata.name.size() <= 63",
            message="shorten metadata.name to at most 63 characters, as pods carry it in a label",
        ),
    ),
    "spec.model": (
        Rule(
            rule="!has(self.aliases) || !has(self.name) || !(self.name in self.aliases)",
            message="remove the name of the model from aliases",
            field_path=".aliases",
        ),
        Rule(
            rule="!has(self.adapters) || self.adapters.all(adapter,"
            " (!has(self.name) || adapter.name != self.name)"
            " && (!has(self.aliases) || !(adapter.name in self.aliases)))",
            message="give the adapter another name than the model and its aliases: clients choose by it",
            field_path=".adapters",
        ),
    ),
    "spec.model.uri": _URI,
    "spec.model.revision": (
        _shape(
            r"[A-Za-z0-9][A-Za-z0-9._/+-]*",
            "write a commit, tag or version: letters, digits and . _ / + -, starting with a letter or digit",
        ),
    ),
    "spec.model.sha256": (
        _shape(
            r"[a-f0-9]{64}",
            "write 64 lower-case hexadecimal characters, without sha256: in front of them",
        ),
    ),
    "spec.model.name": (_MODEL_NAME,),
    "spec.model.aliases[]": (_MODEL_NAME,),
    "spec.model.credentialsSecret": (
        _shape(_OBJECT_NAME, "write the name of a Secret: lower-case letters, digits, dashes and dots"),
    ),
    "spec.model.quantization": (_ENGINE_WORD,),
    "spec.model.kvCacheDtype": (_ENGINE_WORD,),
    "spec.model.adapters[].name": (
        _shape(
            r"[A-Za-z0-9][A-Za-z0-9._-]*",
            "start the name with a letter or digit and go on with letters, digits and . _ -",
        ),
    ),
    "spec.model.adapters[].uri": (
        *_URI,
        Rule(
            rule="!self.startsWith('pvc://')",
            message="put the adapter into a bucket or repository: only the model can come from pvc://",
        ),
    ),
    "spec.engine.image": (
        _shape(
            r"[A-Za-z0-9][A-Za-z0-9._:/@-]*",
            "write an image as REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST",
        ),
    ),
    "spec.engine.args": (_ENGINE_ARGS,),
    "spec.engine.env[]": (
        Rule(
            rule="!has(self.value) || !has(self.valueFrom)",
            message="give value or valueFrom, not both",
        ),
    ),
    "spec.engine.env[].name": (
        _shape(
            r"[A-Za-z_][A-Za-z0-9_.-]*",
            "start the name with a letter or _ and go on with letters, digits and _ . -",
        ),
        Rule(
            rule="!(self in ['STOKER_REVISION', 'STOKER_DRAIN_SECONDS', 'POD_NAME'])",
            message="remove the variable: Stoker sets it for every instance",
            reason="FieldValueForbidden",
        ),
    ),
    "spec.accelerator": _ACCELERATOR,
    "spec.accelerator.type": (_ACCELERATOR_TYPE,),
    "spec.accelerator.resource": (_RESOURCE,),
    "spec.accelerator.alternatives[]": _ACCELERATOR,
    "spec.accelerator.alternatives[].type": (_ACCELERATOR_TYPE,),
    "spec.accelerator.alternatives[].resource": (_RESOURCE,),
    "spec.scaling": _SCALING,
    "spec.scaling.schedule[]": (
        Rule(
            rule="self.start != self.end",
            message="end at another time than start; leave the entry out and raise minReplicas for all day",
            field_path=".end",
        ),
    ),
    "spec.scaling.schedule[].start": (_TIME_OF_DAY,),
    "spec.scaling.schedule[].end": (_TIME_OF_DAY,),
    "spec.scaling.schedule[].timeZone": (
        _shape(
            r"UTC|[A-Z][A-Za-z_]+(/[A-Z][A-Za-z0-9_+-]*){1,2}",
            "write the IANA name of a time zone, as in Europe/Zurich, or UTC",
        ),
    ),
    "spec.rollout": (
        Rule(
            rule="!has(self.steps) || !has(self.strategy) || self.strategy != 'BlueGreen'",
            message="remove steps, or set strategy to Canary: BlueGreen moves all traffic at once",
            field_path=".steps",
            reason="FieldValueForbidden",
        ),
    ),
    "spec.rollout.steps": (
        Rule(
            rule="self.map(step, step.weight).isSorted()"
            " && self.all(step, self.exists_one(other, other.weight == step.weight))",
            message="order the steps by weight, each with more than the one before",
        ),
    ),
    "spec.rollbackTo": (
        _shape(r"[a-z]([a-z0-9-]*[a-z0-9])?", "write the name of a revision, as status.revisions has it"),
    ),
    "spec.cache.nodeSelector": (_LABEL_VALUES,),
    "spec.podTemplate": (
        Rule(
            rule="!has(self.volumeMounts) || self.volumeMounts.all(mount, has(self.volumes)"
            " && self.volumes.exists(volume, volume.name == mount.name))",
            message="name a volume of podTemplate.volumes in every volume mount",
            field_path=".volumeMounts",
        ),
    ),
    "spec.podTemplate.labels": (
        _LABEL_VALUES,
        Rule(
            rule=f"self.all(key, !key.startsWith('{GROUP}/'))",
            message=f"remove labels that start with {GROUP}/: Stoker finds its pods by them",
            reason="FieldValueForbidden",
        ),
    ),
    "spec.podTemplate.nodeSelector": (_LABEL_VALUES,),
    "spec.podTemplate.volumes": _VOLUMES,
    "spec.podTemplate.volumeMounts[].mountPath": (
        Rule(
            rule="self.startsWith('/') && !self.contains(':')"
            " && !self.matches(r'''^/(weights|credentials|tmp|dev/shm)?(/|$)''')",
            message="mount at an absolute path that is not below /weights, /credentials, /tmp or /dev/shm",
        ),
    ),
    "spec.podTemplate.resources.requests": _RESOURCES,
    "spec.podTemplate.resources.limits": _RESOURCES,
}
"""Rules by the path of the field that carries them; `[]` stands for the items of a list."""
