"""The cluster that the demo and the scenarios talk to, with kubectl and Helm."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster.command import run
from e2e.cluster.programs import program


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A cluster and the two programs that a person would use on it."""

    kubectl_program: Path
    helm_program: Path
    kubeconfig: Path | None
    """None: what kubectl uses by itself, which is `$KUBECONFIG` or the file in the home folder."""

    def kubectl(self, *words: str, stdin: object = None, deadline_s: float = 60) -> str:
        """What kubectl prints; `stdin` is a text, or an object or a list of them for `-f -`.

        Raises ClusterError with kubectl's own words when it fails.
        """
        text = stdin if isinstance(stdin, str | None) else json.dumps(_as_list(stdin))
        return run(*self.command(*words), env=self._environment(), stdin=text, deadline_s=deadline_s)

    def get(self, *words: str) -> dict[str, Any]:
        """One object, or a list of them, as the API server sends it."""
        found: dict[str, Any] = json.loads(self.kubectl("get", "--output=json", *words))
        return found

    def command(self, *words: str) -> list[str | Path]:
        """The command line of a kubectl that somebody else starts, for `port-forward` and the like."""
        where = () if self.kubeconfig is None else (f"--kubeconfig={self.kubeconfig}",)
        return [self.kubectl_program, *where, *words]

    def helm(self, *words: str, deadline_s: float = 300) -> str:
        """What Helm prints."""
        return run(self.helm_program, *words, env=self._environment(), deadline_s=deadline_s)

    def _environment(self) -> dict[str, str]:
        chosen = {} if self.kubeconfig is None else {"KUBECONFIG": str(self.kubeconfig)}
        return {**os.environ, **chosen}


def embedded(kubeconfig: Path) -> Target:
    """An embedded cluster, with the kubectl and the Helm that were built with it."""
    return Target(kubectl_program=program("kubectl"), helm_program=program("helm"), kubeconfig=kubeconfig)


def current() -> Target:
    """The cluster that `kubectl` of this machine talks to."""
    return Target(kubectl_program=Path("kubectl"), helm_program=Path("helm"), kubeconfig=None)


def _as_list(objects: object) -> object:
    return {"apiVersion": "v1", "kind": "List", "items": objects} if isinstance(objects, list) else objects
