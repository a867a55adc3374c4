"""API servers for tests: real ones, with the project's CRDs in them and no nodes.

Objects, admission, watches and the built-in controllers are real; pods never run.
"""

import contextlib
import json
from pathlib import Path

from e2e.cluster import cluster, command, control_plane, layout
from e2e.cluster.errors import ClusterError

_CRDS = Path(__file__).parents[2] / "crds"
_DEADLINE_S = 60


@contextlib.contextmanager
def api_server_in(state):
    """The path of the administrator's kubeconfig of an API server that lives as long as the context."""
    try:
        up = cluster.up(state, nodes=0)
        control_plane.kubectl(up, "apply", "--server-side", "-f", str(_CRDS))
        command.wait_for("the CRDs", lambda: _not_established(up), deadline_s=30)
        yield up.kubeconfig
    finally:
        cluster.down(state)


def kubectl_of(kubeconfig):
    """``kubectl("get", "pods", "-o", "json")``: parsed when it is JSON, else text without end of line.

    ``stdin`` is a manifest as a dict or a text, for ``-f -``. Fails the test with kubectl's message.
    """
    server = layout.load(kubeconfig.parent)

    def call(*words, stdin=None):
        text = json.dumps(stdin) if isinstance(stdin, dict | list) else stdin
        answer = control_plane.kubectl(server, *words, stdin=text, deadline_s=_DEADLINE_S)
        return json.loads(answer) if {"json", "-ojson", "-o=json"} & set(words) else answer.strip()

    return call


def _not_established(up):
    # kubectl itself fails at once on a CRD that has no conditions yet.
    try:
        control_plane.kubectl(up, "wait", "--for=condition=Established", "--timeout=5s", "crd", "--all")
    except ClusterError as error:
        return str(error)
    return None
