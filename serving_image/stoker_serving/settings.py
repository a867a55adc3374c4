"""What the pod tells the supervisor, read once from its environment."""

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One field for each variable; `from_environ` names them."""

    engine_command: tuple[str, ...]
    """Program that serves the OpenAI API, before its arguments. `STOKER_ENGINE_COMMAND`."""
    engine_arguments: Path | None
    """List of arguments that the image's engine knows. `STOKER_ENGINE_ARGUMENTS`; without it none is
    checked, and the engine itself refuses a wrong one, later."""
    weights: Path
    """Folder that the init step filled. `STOKER_WEIGHTS`."""
    weights_digest: str | None
    """Digest that must be served; None accepts what the init step verified. `STOKER_WEIGHTS_DIGEST`."""
    revision: str
    """Name of the revision this instance belongs to. `STOKER_REVISION`."""
    probe_port: int
    """Where probes are answered. `STOKER_PROBE_PORT`."""
    endpoint_removal_s: float
    """How long a leaving instance goes on accepting requests, until every proxy in the cluster has
    heard that it leaves. `STOKER_ENDPOINT_REMOVAL_SECONDS`."""
    drain_s: float
    """How long running requests may take to finish after that. `STOKER_DRAIN_SECONDS`."""
    stuck_s: float
    """Without a token for this long, with one request running, the engine is stuck. The bound grows
    with load (`liveness.bound_s`). `STOKER_STUCK_SECONDS`."""
    max_requests: int | None
    """Most requests in flight at once; None means as many as come. `STOKER_MAX_REQUESTS`."""
    termination_log: Path
    """Where the reason of a failure goes. `STOKER_TERMINATION_LOG`."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        """Reads every setting; raises ValueError that names the variable that is not a number."""

        def number(name: str, default: float) -> float:
            text = environ.get(name, "")
            try:
                value = float(text) if text else default
            except ValueError:
                value = -1.0
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name}={text!r} is not a number from 0 on: give one, such as {default:g}.")
            return value

        command = environ.get("STOKER_ENGINE_COMMAND", "")
        arguments = environ.get("STOKER_ENGINE_ARGUMENTS", "")
        return cls(
            engine_command=tuple(shlex.split(command))
            or (sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
            engine_arguments=Path(arguments) if arguments else None,
            weights=Path(environ.get("STOKER_WEIGHTS", "/weights")),
            weights_digest=environ.get("STOKER_WEIGHTS_DIGEST") or None,
            revision=environ.get("STOKER_REVISION", ""),
            probe_port=int(number("STOKER_PROBE_PORT", 8081)),
            endpoint_removal_s=number("STOKER_ENDPOINT_REMOVAL_SECONDS", 5),
            drain_s=number("STOKER_DRAIN_SECONDS", 300),
            stuck_s=number("STOKER_STUCK_SECONDS", 120),
            max_requests=int(number("STOKER_MAX_REQUESTS", 0)) or None,
            termination_log=cls.termination_log_of(environ),
        )

    @staticmethod
    def termination_log_of(environ: Mapping[str, str]) -> Path:
        """Where failures go; needed even when the other settings can't be read."""
        return Path(environ.get("STOKER_TERMINATION_LOG", "/dev/termination-log"))
