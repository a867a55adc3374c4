"""Can Stoker do what this spec says?

The CRD's schema and rules refuse most of what is wrong before it is stored. What gets through, from
an older CRD or because a rule cannot express it, ends here as one sentence that names the field.
"""

from dataclasses import dataclass

from pydantic import ValidationError

from stoker.api.reasons import Reason
from stoker.api.spec import InferenceServiceSpec
from stoker.core.config import Config
from stoker.core.engine_args import refuse_args
from stoker.core.model import JsonObject, Refusal
from stoker.core.revision import name_revision
from stoker.core.sources import Scheme, Source, parse_source


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidSpec:
    """A spec that can be carried out."""

    spec: InferenceServiceSpec
    source: Source
    """What `model.uri` names."""
    revision: str
    """Name of the revision that it asks for."""


def read_spec(service: JsonObject, *, config: Config) -> ValidSpec | Refusal:
    """The spec of a live `InferenceService`, or the first thing in it that cannot be done."""
    try:
        spec = InferenceServiceSpec.model_validate(service.get("spec", {}))
    except ValidationError as error:
        return _first_sentence(error)
    source = parse_source(spec.model.uri, allow_cluster_internal=config.allow_cluster_internal_sources)
    if isinstance(source, Refusal):
        return _in_field("model.uri", source)
    for adapter in spec.model.adapters:
        field = f"model.adapters[{adapter.name}].uri"
        adapter_source = parse_source(
            adapter.uri, allow_cluster_internal=config.allow_cluster_internal_sources
        )
        if isinstance(adapter_source, Refusal):
            return _in_field(field, adapter_source)
        if adapter_source.scheme is Scheme.PVC:
            return _invalid(f"`{field}`: an adapter cannot come from pvc://; use any other kind of source")
    revision = name_revision(spec, service_name=service["metadata"]["name"])
    return refuse_args(spec.engine.args) or ValidSpec(spec=spec, source=source, revision=revision)


def _first_sentence(error: ValidationError) -> Refusal:
    first, *others = error.errors(include_url=False, include_input=False)
    more = f" (and {len(others)} more)" if others else ""
    return _invalid(f"`spec.{'.'.join(map(str, first['loc']))}`: {first['msg']}{more}")


def _in_field(field: str, refusal: Refusal) -> Refusal:
    return Refusal(reason=refusal.reason, message=f"`{field}`: {refusal.message}")


def _invalid(message: str) -> Refusal:
    return Refusal(reason=Reason.INVALID_SPEC, message=message)
