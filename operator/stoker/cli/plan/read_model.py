"""What is the model? Its config and sizes, from this machine or from where pods would fetch it."""

import os
from pathlib import Path

from stoker.api.reasons import TerminationClass
from stoker.cli.plan.manifest import is_local
from stoker.cli.plan.options import usage
from stoker.core.model import Refusal
from stoker.fetch.errors import FetchError
from stoker.fetch.local_model import ModelFiles, read_local_model

_HERE = {
    TerminationClass.WEIGHTS_UNREACHABLE: "see that this machine reaches it, or give --model a config.json.",
    TerminationClass.WEIGHTS_FORBIDDEN: "set the token in the environment, such as HF_TOKEN.",
}
"""What to do about a failure on this machine, where the advice for a pod does not help."""
_NO_SECRET = Path("/nonexistent")
"""Credentials come from the environment alone; there is no mounted Secret here."""


def read_model(model: str, *, revision: str) -> ModelFiles:
    """The files of a model; a usage error says why there are none."""
    try:
        return read_local_model(Path(model)) if is_local(model) else _read_remote(model, revision=revision)
    except FetchError as error:
        fix = _HERE.get(error.reason, error.fix)
        raise usage(f"{error.message}; {fix[0].lower()}{fix[1:]}") from error


def _read_remote(uri: str, *, revision: str) -> ModelFiles:
    """As `stoker fetch` reads it, with the person's own tokens and from the person's own network."""
    import asyncio

    from stoker.core.sources import Scheme, parse_source
    from stoker.fetch.credentials import load_credentials
    from stoker.fetch.guard import AddressGuard
    from stoker.fetch.model_files import read_model_files

    source = parse_source(uri, allow_cluster_internal=True)
    if isinstance(source, Refusal):
        raise usage(f"--model {uri}: {source.message}.")
    if source.scheme is Scheme.PVC:
        raise usage(f"{uri} is a claim that only pods can read; give --model a copy of its config.json.")
    return asyncio.run(
        read_model_files(
            source,
            revision=revision,
            credentials=load_credentials(environment=os.environ, folder=_NO_SECRET),
            guard=AddressGuard(allow_internal=True),
        )
    )
