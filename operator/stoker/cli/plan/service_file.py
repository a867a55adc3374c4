"""What does the `InferenceService` of a file ask for? Read as the operator reads it."""

import sys
from pathlib import Path
from typing import Any

import yaml

from stoker.api.names import API_VERSION, KIND
from stoker.api.spec import InferenceServiceSpec
from stoker.cli.plan.options import usage
from stoker.core.config import Config
from stoker.core.model import JsonObject, Refusal
from stoker.core.validation import read_spec

_CONFIG = Config(stoker_image="", serving_image="", serving_image_cpu="", allow_cluster_internal_sources=True)
"""Images make no difference here, and whether a cluster allows a source is for that cluster to say."""


def load_service(path: Path) -> JsonObject:
    """The one `InferenceService` of a file with YAML documents; `-` is standard input."""
    name = "standard input" if str(path) == "-" else str(path)
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except OSError as error:
        raise usage(f"-f {name}: {error.strerror}; give a file with an {KIND}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise usage(f"-f {name} is not YAML ({_one_line(error)}); correct it.") from error
    services = [document for document in documents if _kind(document) == KIND]
    if len(services) != 1:
        kinds = ", ".join(_kind(document) for document in documents) or "nothing"
        raise usage(f"-f {name} has to hold one {KIND}; it holds {kinds}.")
    (service,) = services
    if service.get("apiVersion") != API_VERSION:
        raise usage(f"-f {name} is of apiVersion {service.get('apiVersion')}; write {API_VERSION}.")
    return dict(service)


def read_service(service: JsonObject) -> InferenceServiceSpec:
    """The spec of a service, or a sentence with the field that is wrong."""
    valid = read_spec(service, config=_CONFIG)
    if isinstance(valid, Refusal):
        raise usage(f"{valid.message}.")
    return valid.spec


def _kind(document: Any) -> str:
    return str(document.get("kind", "a document without kind")) if isinstance(document, dict) else "a text"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
