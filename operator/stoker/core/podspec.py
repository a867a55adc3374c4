"""What does the pod of an instance look like?

Two containers that share one folder: `weights` fetches and verifies the model as an init container,
`engine` is `stoker_serving`, which runs vLLM and answers probes on a port of its own. The pod passes
Pod Security `restricted`: nothing in it is root, writable, or able to talk to the API server.

The user's `podTemplate` is merged by name. It can add to the pod and set its resources; it cannot
change what makes a pod an instance (labels that select it, containers, ports, probes) or its
security settings, as the API has no field for those.

Rejected: a preStop hook that waits (PID 1 drains on SIGTERM by itself, and knows when it is done);
a startup probe sized by the weights (their size is not known here: the probe allows hours, and an
engine that hangs while it loads is restarted only then).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from stoker.api import names
from stoker.api.instance_spec import CPU
from stoker.api.spec import InferenceServiceSpec, SpreadDomain
from stoker.core.config import Config
from stoker.core.engine_args import MODEL_PATH, engine_args
from stoker.core.model import JsonObject
from stoker.core.sources import Scheme, Source

DRAIN_S = 300
"""Seconds that a leaving instance gives its running streams; most answers are out long before."""
_SHUTDOWN_S = 30
"""Seconds on top of the drain for the engine to stop."""
_STARTUP_LIMIT_S = 4 * 3600
"""Seconds until the kubelet gives up on a start; 600 GiB at 100 MB/s take less than two hours."""

_SHARED_MEMORY_GI = 2
"""GiB of /dev/shm for each accelerator: NCCL's buffers and vLLM's message queues live there, and the
container runtime's default of 64 MiB ends a tensor-parallel engine (vLLM docs, `--ipc=host`)."""

_USER_ID = 1000
_TMP = "/tmp"  # noqa: S108
_SHARED_MEMORY = "/dev/shm"  # noqa: S108
_CREDENTIALS_PATH = "/credentials"
_READ_BY_GROUP = 0o440
_TOPOLOGY_KEYS = {
    SpreadDomain.ZONE: "topology.kubernetes.io/zone",
    SpreadDomain.NODE: "kubernetes.io/hostname",
}
_WEIGHTS = {SpreadDomain.ZONE: 100, SpreadDomain.NODE: 50}
"""Another zone counts for more than another node of the same one."""
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def pod_template(
    spec: InferenceServiceSpec, source: Source, *, service_name: str, revision: str, config: Config
) -> JsonObject:
    """The `template` of a revision's Deployment. `source` is what `model.uri` names."""
    user = spec.pod_template
    child = names.child_name(service_name)
    labels = {
        **user.labels,
        **names.child_labels(service_name, component="instance"),
        names.REVISION_LABEL: revision,
    }
    pull_secrets = _by_key(
        "name", [{"name": name} for name in config.image_pull_secrets], user.image_pull_secrets
    )
    pod = {
        "serviceAccountName": child,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": DRAIN_S + _SHUTDOWN_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER_ID,
            "runAsGroup": _USER_ID,
            "fsGroup": _USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [_weights_container(spec, source, config=config)],
        "containers": [
            _engine_container(spec, source, service_name=service_name, revision=revision, config=config)
        ],
        "volumes": _by_key("name", user.volumes, _volumes(spec, source)),
        "tolerations": [*_accelerator_tolerations(spec), *user.tolerations],
        "nodeSelector": user.node_selector,
        "affinity": _spread(user.affinity or {}, spec.availability.spread, revision=revision),
        "imagePullSecrets": pull_secrets,
        "priorityClassName": user.priority_class_name,
        "runtimeClassName": user.runtime_class_name,
    }
    metadata = {"labels": labels, "annotations": user.annotations}
    return {"metadata": _without_nulls(_filled(metadata)), "spec": _without_nulls(_filled(pod))}


def _weights_container(spec: InferenceServiceSpec, source: Source, *, config: Config) -> JsonObject:
    model = spec.model
    args = ["--uri", model.uri, "--to", names.WEIGHTS_PATH]
    if model.revision:
        args += ["--revision", model.revision]
    if model.sha256:
        args += ["--sha256", model.sha256]
    for adapter in sorted(model.adapters, key=lambda adapter: adapter.name):
        args += ["--adapter", f"{adapter.name}={adapter.uri}"]
    if config.allow_cluster_internal_sources:
        args.append("--allow-cluster-internal")
    mounts = [*_weights_mounts(source, read_only=False), {"name": "tmp", "mountPath": _TMP}]
    container = {
        "name": names.WEIGHTS_CONTAINER,
        "image": config.stoker_image,
        "command": ["stoker", "fetch"],
        "args": args,
        "env": [{"name": "HOME", "value": _TMP}],
    }
    if model.credentials_secret:
        # The mounted copy is optional so that a Secret that is missing shows as the container's
        # own error, from `envFrom`, and not only in an event of the kubelet.
        container["envFrom"] = [{"secretRef": {"name": model.credentials_secret}}]
        mounts.append({"name": "credentials", "mountPath": _CREDENTIALS_PATH, "readOnly": True})
    return _contained({**container, "volumeMounts": mounts}, config=config)


def _engine_container(
    spec: InferenceServiceSpec, source: Source, *, service_name: str, revision: str, config: Config
) -> JsonObject:
    default_image = config.serving_image_cpu if spec.accelerator.type == CPU else config.serving_image
    mounts = [
        *_weights_mounts(source, read_only=True),
        {"name": "tmp", "mountPath": _TMP},
        {"name": "shm", "mountPath": _SHARED_MEMORY},
    ]
    own_env: list[JsonObject] = [
        {"name": "STOKER_REVISION", "value": revision},
        {"name": "STOKER_DRAIN_SECONDS", "value": str(DRAIN_S)},
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        {"name": "HOME", "value": _TMP},
        {"name": "HF_HUB_OFFLINE", "value": "1"},
        {"name": "VLLM_NO_USAGE_STATS", "value": "1"},
    ]
    if spec.model.sha256:
        own_env.append({"name": "STOKER_WEIGHTS_DIGEST", "value": f"sha256:{spec.model.sha256}"})
    user_env = [env.model_dump(by_alias=True, exclude_none=True) for env in spec.engine.env]
    container = {
        "name": names.ENGINE_CONTAINER,
        "image": spec.engine.image or default_image,
        "args": engine_args(spec, service_name=service_name),
        "env": _by_key("name", own_env, user_env),
        "ports": [
            {"name": "http", "containerPort": names.HTTP_PORT, "protocol": "TCP"},
            {"name": "probes", "containerPort": names.PROBE_PORT, "protocol": "TCP"},
        ],
        "resources": _resources(spec),
        # One second each: an instance that becomes Ready shall get its first request within one.
        "startupProbe": _probe("/startupz", period_s=1, failures=_STARTUP_LIMIT_S),
        "readinessProbe": _probe("/readyz", period_s=1, failures=2),
        "livenessProbe": _probe("/livez", period_s=10, failures=3),
        "volumeMounts": _by_key("mountPath", spec.pod_template.volume_mounts, mounts),
    }
    return _contained(container, config=config)


def _contained(container: JsonObject, *, config: Config) -> JsonObject:
    """The container with what both share: how its image is pulled, what it may do, how it says its end."""
    return {
        **_filled(container),
        "imagePullPolicy": config.image_pull_policy,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        # A container that is killed writes no message; its last words are then the best there is.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _probe(path: str, *, period_s: int, failures: int) -> JsonObject:
    return {
        "httpGet": {"path": path, "port": names.PROBE_PORT, "scheme": "HTTP"},
        "periodSeconds": period_s,
        "timeoutSeconds": 2,
        "failureThreshold": failures,
    }


def _weights_mounts(source: Source, *, read_only: bool) -> list[JsonObject]:
    mounts: list[JsonObject] = [{"name": "weights", "mountPath": names.WEIGHTS_PATH, "readOnly": read_only}]
    if source.scheme is Scheme.PVC:
        mount = {"name": "model", "mountPath": MODEL_PATH, "subPath": source.path, "readOnly": True}
        mounts.append(_filled(mount))
    return mounts


def _volumes(spec: InferenceServiceSpec, source: Source) -> list[JsonObject]:
    accelerators = 1 if spec.accelerator.type == CPU else spec.accelerator.count
    shared_memory = {"medium": "Memory", "sizeLimit": f"{_SHARED_MEMORY_GI * accelerators}Gi"}
    volumes: list[JsonObject] = [
        {"name": "weights", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": shared_memory},
    ]
    if source.scheme is Scheme.PVC:
        claim = {"claimName": source.authority, "readOnly": True}
        volumes.append({"name": "model", "persistentVolumeClaim": claim})
    if spec.model.credentials_secret:
        secret = {
            "secretName": spec.model.credentials_secret,
            "defaultMode": _READ_BY_GROUP,
            "optional": True,
        }
        volumes.append({"name": "credentials", "secret": secret})
    return volumes


def _resources(spec: InferenceServiceSpec) -> JsonObject:
    limits = {key: str(value) for key, value in spec.pod_template.resources.limits.items()}
    requests = {key: str(value) for key, value in spec.pod_template.resources.requests.items()}
    if resource := spec.accelerator.extended_resource:
        # An extended resource cannot be overcommitted: its request is always its limit.
        limits[resource] = requests[resource] = str(spec.accelerator.count)
    return _filled({"limits": limits, "requests": requests})


def _accelerator_tolerations(spec: InferenceServiceSpec) -> list[JsonObject]:
    """Nodes with accelerators are usually tainted with the resource's name, to keep other pods away."""
    resource = spec.accelerator.extended_resource
    return [{"key": resource, "operator": "Exists", "effect": "NoSchedule"}] if resource else []


def _spread(affinity: JsonObject, domains: Iterable[SpreadDomain], *, revision: str) -> JsonObject:
    """The user's affinity, and the wish that instances of a revision keep apart.

    A wish, never a must: with few free accelerators an instance in the wrong zone beats none.
    Rejected: `topologySpreadConstraints`, as the scheduler scores no node that lacks one of their
    keys, and without zone labels instances would not be spread over nodes either.
    """
    apart = [
        {
            "weight": _WEIGHTS[domain],
            "podAffinityTerm": {
                "topologyKey": key,
                "labelSelector": {"matchLabels": {names.REVISION_LABEL: revision}},
            },
        }
        for domain, key in _TOPOLOGY_KEYS.items()
        if domain in domains
    ]
    if not apart:
        return affinity
    anti: JsonObject = affinity.get("podAntiAffinity") or {}
    return {**affinity, "podAntiAffinity": {**anti, _PREFERRED: [*anti.get(_PREFERRED, []), *apart]}}


def _by_key(
    key: str, items: Iterable[Mapping[str, Any]], over: Iterable[Mapping[str, Any]]
) -> list[JsonObject]:
    """Both lists as one; an item of `over` takes the place of one with the same key."""
    merged = {item[key]: dict(item) for item in items} | {item[key]: dict(item) for item in over}
    return list(merged.values())


def _filled(fields: JsonObject) -> JsonObject:
    """The fields that say something. Only for maps of ours: in a user's, `{}` may well say something."""
    return {key: value for key, value in fields.items() if value not in (None, {}, [], "")}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value
