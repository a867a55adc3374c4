"""Every name, label and annotation that Stoker gives to an object in the cluster.

Kubernetes limits a label value and a Service's name to 63 characters of `[a-z0-9-]`, starting with
a letter, while an `InferenceService` may have dots and start with a digit. A name that does not
fit is shortened and gets a hash of the whole, so that it stays valid, stable and unique.

Rejected: `generateName`, as two reconciles of the same object would make two children.
"""

import hashlib
import re

GROUP = "serving.stoker.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferenceService"
PLURAL = "inferenceservices"
NODE_CACHE_KIND = "NodeCache"
NODE_CACHE_PLURAL = "nodecaches"

FIELD_MANAGER = "stoker"
STATUS_FIELD_MANAGER = "stoker-status"
MANAGED_BY = "stoker"

SERVICE_LABEL = f"{GROUP}/service"
"""On every child: the child name of the `InferenceService` it belongs to (`child_name`)."""
REVISION_LABEL = f"{GROUP}/revision"
"""On the Deployment and pods of a revision: the revision's name."""
SPEC_HASH_ANNOTATION = f"{GROUP}/spec-hash"
"""On every child: hash of what we last applied, so that a second look needs no write."""

TEMPLATE_ANNOTATION = f"{GROUP}/pod-template"
"""On a revision's Deployment: the pod template as it was first applied, as JSON."""

WEIGHTS_CONTAINER = "weights"
ENGINE_CONTAINER = "engine"

HTTP_PORT = 8000
"""Where an instance answers clients."""
PROBE_PORT = 8081
"""Where `stoker_serving` answers probes and says its state."""
SERVICE_PORT = 80

WEIGHTS_PATH = "/weights"

CORRECTIONS_NAME = "stoker-capacity-corrections"
"""ConfigMap in the operator's own namespace: what engines measured, over what was estimated."""
_MODEL_FILES_SUFFIX = "-model-files"

LABEL_LIMIT = 63
_HASH_LENGTH = 8
_ENDS_LIKE_A_HASH = re.compile(rf"-[0-9a-f]{{{_HASH_LENGTH}}}$")
_POD_SUFFIX = len("-0123456789-abcde")
"""What a ReplicaSet adds to the name of a Deployment to name a pod, which is also its host name."""
DEPLOYMENT_LIMIT = LABEL_LIMIT - _POD_SUFFIX


def short_hash(text: str) -> str:
    """Eight hexadecimal characters that stand for `text` in a name."""
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]


def child_name(service_name: str, *, limit: int = LABEL_LIMIT) -> str:
    """Name of the children of a service that exist once (Service, PDB, ServiceAccount).

    A valid name that fits stays as it is; any other is made valid, cut, and gets a hash. So does
    one that already ends like a hash, as it could be the child name of another service.

    Example: `chat` -> `chat`; `llama-3.1-8b` -> `llama-3-1-8b-` and eight characters.
    """
    valid = re.sub(r"[^a-z0-9-]+", "-", service_name.lower()).strip("-")
    if not valid or not valid[0].isalpha():
        valid = f"m-{valid}".rstrip("-")
    if valid == service_name and len(valid) <= limit and not _ENDS_LIKE_A_HASH.search(valid):
        return valid
    cut = valid[: limit - _HASH_LENGTH - 1].rstrip("-")
    return f"{cut}-{short_hash(service_name)}"


def revision_name(service_name: str, spec_hash: str) -> str:
    """Name of a revision, of its Deployment, and of its label value.

    It leaves room for what the ReplicaSet adds, so that a pod's host name is not cut.

    Example: (`chat`, `5f3a9c01`) -> `chat-5f3a9c01`.
    """
    return f"{child_name(service_name, limit=DEPLOYMENT_LIMIT - _HASH_LENGTH - 1)}-{spec_hash}"


def model_files_name(service_name: str) -> str:
    """Name of the ConfigMap that keeps what a service's models say of themselves.

    Example: `chat` -> `chat-model-files`. Not the bare child name: people have ConfigMaps of that name.
    """
    return f"{child_name(service_name, limit=LABEL_LIMIT - len(_MODEL_FILES_SUFFIX))}{_MODEL_FILES_SUFFIX}"


def child_labels(service_name: str, *, component: str) -> dict[str, str]:
    """Labels of a child: by the first we find it, the others are the ones that people and tools expect."""
    child = child_name(service_name)
    return {
        SERVICE_LABEL: child,
        "app.kubernetes.io/name": "stoker-instance",
        "app.kubernetes.io/instance": child,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": "stoker",
        "app.kubernetes.io/managed-by": MANAGED_BY,
    }
