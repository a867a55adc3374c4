"""`python -m e2e.stand_in_engine`, in place of `python -m vllm.entrypoints.openai.api_server`.

Beside vLLM's arguments the environment says what a real engine could not be told: `STAND_IN_PROFILE`
(`profiles.py`), `STAND_IN_FAULTS` (`faults.py`), `STAND_IN_ANSWER_TOKENS`.
"""

import os
import sys

import uvloop

from e2e.stand_in_engine import arguments, faults
from e2e.stand_in_engine.faults import BadFaults
from e2e.stand_in_engine.loading import load
from e2e.stand_in_engine.log import API_SERVER, ENGINE_CORE, logger
from e2e.stand_in_engine.model_folder import StartError
from e2e.stand_in_engine.profiles import PROFILES, Profile
from e2e.stand_in_engine.server import bind, serve
from e2e.stand_in_engine.version import VERSION

_DEFAULT_PROFILE = "fast"
_DEFAULT_ANSWER_TOKENS = 32


def main() -> None:
    """Start, serve, end. Exit codes are vLLM's: 2 for arguments, 1 for a failed start, 0 after SIGTERM."""
    given = arguments.parse(sys.argv[1:])
    try:
        active = faults.parse(os.environ.get("STAND_IN_FAULTS") or "{}")
        profile = _profile(os.environ.get("STAND_IN_PROFILE") or _DEFAULT_PROFILE)
        answer_tokens = int(os.environ.get("STAND_IN_ANSWER_TOKENS") or _DEFAULT_ANSWER_TOKENS)
    except (BadFaults, ValueError) as error:
        sys.exit(f"the environment of the stand-in engine is wrong: {error}")
    log = logger(API_SERVER)
    log.info("vLLM server version %s, serving model %s", VERSION, given.model)
    with bind(given.host, given.port) as listener:
        try:
            loaded = load(given, profile=profile, faults=active)
        except StartError as error:
            logger(ENGINE_CORE).error(
                "EngineCore failed to start.\nTraceback (most recent call last):\n%s", error
            )
            sys.exit("RuntimeError: Engine core initialization failed. See root cause above.")
        uvloop.run(serve(given, loaded=loaded, faults=active, answer_tokens=answer_tokens, listener=listener))


def _profile(name: str) -> Profile:
    if name not in PROFILES:
        raise ValueError(f"STAND_IN_PROFILE={name} is unknown: take one of {', '.join(PROFILES)}")
    return PROFILES[name]


if __name__ == "__main__":
    main()
