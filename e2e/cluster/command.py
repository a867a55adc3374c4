"""How another program is run to its end, and how we wait for what takes time."""

import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from e2e.cluster.errors import ClusterError

_POLL_S = 0.1
_SHOWN_LINES = 15


def run(
    *command: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    deadline_s: float = 120,
) -> str:
    """Run a program and return what it wrote to standard output.

    Raises ClusterError with the end of its standard error when it is missing, fails or takes
    longer than ``deadline_s``.
    """
    line = " ".join(str(part) for part in command)
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=deadline_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise ClusterError(
            f"{command[0]} isn't installed on this machine; it was needed for: {line}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"no end after {deadline_s:.0f} s: {line}") from error
    if done.returncode != 0:
        shown = "\n".join((done.stderr or done.stdout).strip().splitlines()[-_SHOWN_LINES:])
        raise ClusterError(f"exit status {done.returncode} from: {line}\n{shown}")
    return done.stdout


def without_proxy() -> dict[str, str]:
    """The environment for programs that talk to the cluster, which no proxy of this machine reaches."""
    proxies = ("http_proxy", "https_proxy", "all_proxy")
    return {name: value for name, value in os.environ.items() if name.lower() not in proxies}


def unanswered(url: str) -> str | None:
    """Why a local server does not answer 200; None if it does."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        direct.open(url, timeout=2).close()
    except OSError as error:  # an answer that is no success is one too
        return f"{url}: {error}"
    return None


def wait_for(what: str, met: Callable[[], str | None], *, deadline_s: float) -> None:
    """Ask ``met`` until it returns None; until then it returns what is still missing.

    Raises ClusterError that names what was waited for and what was missing at the end.
    """
    give_up_at = time.monotonic() + deadline_s
    while (missing := met()) is not None:
        if time.monotonic() > give_up_at:
            raise ClusterError(f"waited {deadline_s:.0f} s for {what}: {missing}")
        time.sleep(_POLL_S)
