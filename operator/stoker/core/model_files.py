"""What do the files of a service's model say, and where is that kept?

Whether a model fits depends on its `config.json` and the sizes of its weights. Both are read once for
each revision, in the background (`controller/model_files.py`), and kept by revision in one ConfigMap of
the service. So they outlive the operator's process, and a service that has no Deployment has them too.

Kept are the config as the model has it, so that a later release may find more in it, and the sizes of
the weights, which come from the headers of many files. The ConfigMap is memory and no wish: whoever
deletes it, or spoils an entry, causes one more reading.

Rejected: `status` (a config may have 100 KB, and everybody lists statuses); an annotation of the
Deployment (a model that does not fit has none).
"""

import json
from collections.abc import Iterable
from dataclasses import asdict

from stoker.api import names
from stoker.api.reasons import Reason
from stoker.core.capacity.weights import WeightsSize
from stoker.core.config import Config
from stoker.core.engine_args import engine_args
from stoker.core.model import JsonObject, ModelFacts, ModelToRead, Observed, Refusal
from stoker.core.resources import Ownership, named, ownership
from stoker.core.sources import Scheme
from stoker.core.validation import ValidSpec

_LONGEST_DATA = 900_000
"""Bytes that the ConfigMap may hold; the API server takes 1 MiB, names and labels included."""
_INSIDE_PODS_ONLY = {
    Scheme.PVC: "a claim can be read inside of a pod only",
    Scheme.OCI: "oci:// cannot be read yet",
}


def model_facts(observed: Observed, asked: ValidSpec, *, config: Config) -> ModelFacts | Refusal | None:
    """What the files of the model say, or why they cannot be read; None while they are being read."""
    reading = observed.reading
    answer = reading.answer if reading and reading.revision == asked.revision else None
    if isinstance(answer, ModelFacts):
        return answer
    return _kept_facts(observed, asked) or _out_of_reach(asked, config=config) or answer


def model_to_read(observed: Observed, asked: ValidSpec, *, config: Config) -> ModelToRead | None:
    """What should be read in the background; None when it is kept, or nobody may read it."""
    if _out_of_reach(asked, config=config) or _kept_facts(observed, asked):
        return None
    model = asked.spec.model
    return ModelToRead(
        revision=asked.revision,
        source=asked.source,
        model_revision=model.revision,
        credentials_secret=model.credentials_secret,
        engine_args=tuple(engine_args(asked.spec, service_name=observed.service["metadata"]["name"])),
    )


def data_to_keep(
    observed: Observed, asked: ValidSpec | Refusal, *, records: Iterable[JsonObject]
) -> dict[str, str]:
    """The data of the ConfigMap: what is known of the revision that is asked for and of those remembered.

    `records` are those of `status.revisions`, newest first. What is too much is left out from the end.
    """
    known = _kept_data(observed)
    if observed.reading and isinstance(observed.reading.answer, ModelFacts):
        known[observed.reading.revision] = _text_of(observed.reading.answer)
    first = [] if isinstance(asked, Refusal) else [asked.revision]
    data, left = {}, _LONGEST_DATA
    for revision in dict.fromkeys([*first, *(record["name"] for record in records)]):
        text = known.get(revision, "")
        left -= len(text.encode())
        if text and left >= 0:
            data[revision] = text
    return data


def _out_of_reach(asked: ValidSpec, *, config: Config) -> Refusal | None:
    why = _INSIDE_PODS_ONLY.get(asked.source.scheme)
    if why is None and asked.spec.model.credentials_secret and not config.read_credentials:
        why = "the operator is not allowed to read the Secret in `model.credentialsSecret`"
    return Refusal(reason=Reason.CONFIG_UNREADABLE, message=why) if why else None


def _kept_facts(observed: Observed, asked: ValidSpec) -> ModelFacts | None:
    return _facts_in(_kept_data(observed).get(asked.revision, ""))


def _kept_data(observed: Observed) -> dict[str, str]:
    name = names.model_files_name(observed.service["metadata"]["name"])
    live = named(name, observed.config_maps)
    if live is None or ownership(live, service=observed.service) is not Ownership.OURS:
        return {}
    return dict(live.get("data") or {})


def _text_of(facts: ModelFacts) -> str:
    weights = asdict(facts.weights) if facts.weights else None
    said = {"version": facts.version, "weights": weights, "config": facts.config}
    return json.dumps(said, sort_keys=True, separators=(",", ":"))


def _facts_in(text: str) -> ModelFacts | None:
    """The facts in an entry of the ConfigMap; None for one that somebody spoilt."""
    try:
        said = json.loads(text)
        weights = said["weights"]
        if weights and not all(isinstance(size, int) for name, size in weights.items() if name != "basis"):
            return None
        return ModelFacts(
            version=str(said["version"]),
            weights=WeightsSize(**weights) if weights else None,
            config=dict(said["config"]),
        )
    except (ValueError, TypeError, KeyError):
        return None
