"""What one instance is: model, engine, accelerators and pod. A change here makes a new revision.

The other half of the spec, how the fleet of instances behaves, is in `spec.py`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, TypeAlias

from pydantic import Field

from stoker.api.base import (
    LIST_SET,
    Annotations,
    ApiModel,
    Labels,
    Name,
    NamedRawObject,
    ObjectName,
    Quantities,
    RawObject,
    RawVolumeMount,
    ShortText,
    Uri,
    list_map,
)

CPU = "cpu"
"""The accelerator type that is none."""

_RESOURCE_OF_VENDOR: Mapping[str, str] = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
"""What the vendors' device plugins advertise; a type starts with its vendor's name."""

RESERVED_FLAGS = ("model", "served-model-name", "host", "port", "uds", "ssl-keyfile", "ssl-certfile")
"""Arguments of the engine that Stoker sets and `engine.args` may not; without the leading dashes."""

Argument: TypeAlias = Annotated[str, Field(max_length=4096)]


class Adapter(ApiModel):
    """A LoRA adapter that clients choose by its name, as they choose a model."""

    name: Name = Field(examples=["support-de"])
    """Name that clients send as `model`: letters, digits, dots, dashes and underscores."""
    uri: Uri = Field(examples=["hf://acme/support-de-lora"])
    """Where the adapter comes from, as in `model.uri`; `pvc://` is not possible."""


class ModelSpec(ApiModel):
    """Which model to serve, and in which form."""

    uri: Uri = Field(examples=["hf://Qwen/Qwen2.5-7B-Instruct"])
    """Where the weights come from: `hf://OWNER/NAME`, `s3://BUCKET/PATH`, `gs://BUCKET/PATH`,
    `az://CONTAINER/PATH`, `https://HOST/PATH`, `pvc://CLAIM/PATH` or, not in effect yet, `oci://REGISTRY/NAME:TAG`."""
    revision: ShortText | None = Field(default=None, examples=['"a09a354"'])
    """Commit, tag or version of the weights; quote it, as YAML takes some commits for numbers.
    A moving name is resolved by each instance when it starts, and status names the result: give a
    commit to be sure that all serve the same. Default: the source's newest."""
    sha256: Annotated[str, Field(max_length=128)] | None = Field(
        default=None, examples=["9f86d08..., 64 characters"]
    )
    """Digest that the weights must have, in 64 lower-case hexadecimal characters; other weights
    never serve. Default: whatever the source gives, and status names its digest."""
    name: ShortText | None = Field(default=None, examples=["qwen2.5-7b"])
    """Name that clients send as `model`. Default: the name of the object."""
    aliases: Annotated[tuple[ShortText, ...], Field(max_length=16)] = Field(
        default=(), examples=[["assistant"]], json_schema_extra=LIST_SET
    )
    """Further names that clients may send as `model`."""
    credentials_secret: ObjectName | None = Field(default=None, examples=["hugging-face-token"])
    """Name of a Secret in this namespace with the source's own well-known keys, such as `HF_TOKEN`,
    or `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`. A key `ca.crt` in it is a further authority
    for `https://`. Default: no credentials."""
    context_length: Annotated[int, Field(ge=1, le=100_000_000)] | None = Field(default=None, examples=[32768])
    """Most tokens of one request, prompt and answer together (vLLM's `--max-model-len`).
    Default: what the model was made for."""
    quantization: ShortText | None = Field(default=None, examples=["fp8"])
    """Form of the weights in memory (vLLM's `--quantization`). Default: as the weights are stored."""
    kv_cache_dtype: ShortText | None = Field(default=None, examples=["fp8"])
    """Form of the KV cache in memory (vLLM's `--kv-cache-dtype`). Default: the model's own."""
    adapters: Annotated[tuple[Adapter, ...], Field(max_length=32)] = Field(
        default=(),
        examples=[[{"name": "support-de", "uri": "hf://acme/support-de-lora"}]],
        json_schema_extra=list_map("name"),
    )
    """LoRA adapters served beside the model."""


class Performance(StrEnum):
    """What the engine is tuned for."""

    INTERACTIVITY = "interactivity"
    BALANCED = "balanced"
    THROUGHPUT = "throughput"


class EnvVar(ApiModel):
    """An environment variable of the engine's container."""

    name: ObjectName = Field(examples=["VLLM_LOGGING_LEVEL"])
    """Name of the variable; those that Stoker itself sets for an instance are refused."""
    value: Argument | None = Field(default=None, examples=["DEBUG"])
    """Its value. Default: empty."""
    value_from: RawObject | None = Field(
        default=None, examples=[{"secretKeyRef": {"name": "keys", "key": "token"}}]
    )
    """Where its value comes from, as in a Kubernetes container; not together with `value`.
    Default: from `value`."""


class EngineSpec(ApiModel):
    """How the engine (vLLM) runs."""

    image: ShortText | None = Field(default=None, examples=["registry.example.com/acme/stoker-serving:1.4"])
    """Image of the engine's container. Default: the operator's serving image for the accelerator."""
    args: Annotated[tuple[Argument, ...], Field(max_length=128)] = Field(
        default=(), examples=[["--max-num-seqs", "64"]]
    )
    """Arguments of the engine, after Stoker's own; one that Stoker also sets replaces it."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64)] = Field(
        default=(),
        examples=[[{"name": "VLLM_LOGGING_LEVEL", "value": "DEBUG"}]],
        json_schema_extra=list_map("name"),
    )
    """Environment variables of the engine's container."""
    performance: Performance = Field(default=Performance.BALANCED, examples=["throughput"])
    """What the engine is tuned for: `interactivity` (short answers soon, as for chat), `balanced`,
    or `throughput` (most tokens per second, as for batches)."""


class Accelerator(ApiModel):
    """Accelerators of one instance."""

    type: Name = Field(examples=["nvidia-l40s"])
    """Accelerator's name in Stoker's catalogue, starting with its vendor; `cpu` for none."""
    count: Annotated[int, Field(ge=1, le=16)] = Field(default=1, examples=[2])
    """Accelerators of one instance; the model is split over them (tensor parallel)."""
    resource: ObjectName | None = Field(default=None, examples=["nvidia.com/gpu"])
    """Extended resource that nodes offer the accelerator as. Default: `nvidia.com/gpu` or
    `amd.com/gpu`, after the vendor in `type`; none for `cpu`."""

    @property
    def extended_resource(self) -> str | None:
        """The extended resource that an instance asks for, `count` times; None for `cpu`."""
        vendor, _, _ = self.type.partition("-")
        return self.resource or _RESOURCE_OF_VENDOR.get(vendor)


class AcceleratorSpec(Accelerator):
    """Accelerators of one instance, and what else would do."""

    alternatives: Annotated[tuple[Accelerator, ...], Field(min_length=1, max_length=8)] = Field(
        default=(), examples=[[{"type": "nvidia-a100-80gb"}]]
    )
    """What to use where the first choice is not to be had, best first."""


class Resources(ApiModel):
    """Memory, processors and disk of the engine's container; accelerators are in `accelerator`."""

    requests: Quantities = Field(default={}, examples=[{"cpu": "8", "memory": "64Gi"}])
    """What a node must have free, as in a Kubernetes container."""
    limits: Quantities = Field(default={}, examples=[{"memory": "64Gi"}])
    """What the container may use at most, as in a Kubernetes container."""


class PodTemplate(ApiModel):
    """What is merged into the pods of all instances; a change makes a new revision."""

    labels: Labels = Field(default={}, examples=[{"team": "search"}])
    """Further labels of the pods; those of Stoker's own domain are refused."""
    annotations: Annotations = Field(default={}, examples=[{"sidecar.istio.io/inject": "false"}])
    """Further annotations of the pods."""
    node_selector: Labels = Field(default={}, examples=[{"pool": "inference"}])
    """Labels that a node must have."""
    tolerations: Annotated[tuple[RawObject, ...], Field(max_length=32)] = Field(
        default=(), examples=[[{"key": "nvidia.com/gpu", "operator": "Exists"}]]
    )
    """Tolerations of the pods, as in a Kubernetes pod."""
    affinity: RawObject | None = Field(default=None, examples=[{"podAntiAffinity": "..."}])
    """Affinity of the pods, as in a Kubernetes pod. Default: none but Stoker's own preferences."""
    priority_class_name: ObjectName | None = Field(default=None, examples=["serving"])
    """PriorityClass of the pods. Default: the cluster's."""
    runtime_class_name: ObjectName | None = Field(default=None, examples=["nvidia"])
    """RuntimeClass of the pods. Default: the node's."""
    image_pull_secrets: Annotated[tuple[NamedRawObject, ...], Field(max_length=16)] = Field(
        default=(), examples=[[{"name": "registry"}]], json_schema_extra=list_map("name")
    )
    """Secrets in this namespace to pull images with, besides the operator's own."""
    volumes: Annotated[tuple[NamedRawObject, ...], Field(max_length=32)] = Field(
        default=(),
        examples=[[{"name": "prompts", "configMap": {"name": "prompts"}}]],
        json_schema_extra=list_map("name"),
    )
    """Further volumes of the pods, as in a Kubernetes pod."""
    volume_mounts: Annotated[tuple[RawVolumeMount, ...], Field(max_length=32)] = Field(
        default=(),
        examples=[[{"name": "prompts", "mountPath": "/prompts"}]],
        json_schema_extra=list_map("mountPath"),
    )
    """Where the engine's container sees them, as in a Kubernetes container."""
    resources: Resources = Resources()
    """Memory, processors and disk of the engine's container."""
