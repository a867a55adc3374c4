"""Pods on chosen nodes of the cluster."""

import json

import pytest
from e2e.cluster import cluster, control_plane, images
from e2e.file_server import manifests

NAMESPACE = "nodes-test"


@pytest.fixture(scope="session")
def kubectl(layout):
    """``kubectl("get", "pods")`` in a namespace of the session; ``stdin`` is an object or a text.

    The file server's image, which has Python, is on both nodes.
    """
    image = images.find("file-server")
    images.build([image])
    images.load(image.name, cluster.running_nodes(layout))
    control_plane.kubectl(layout, "create", "namespace", NAMESPACE)

    def call(*words, stdin=None):
        text = stdin if isinstance(stdin, str) else json.dumps(stdin)
        return control_plane.kubectl(layout, f"--namespace={NAMESPACE}", *words, stdin=text)

    return call


@pytest.fixture(scope="session")
def python(kubectl):
    """``python("node-1", "print(1)")``: run a program in a pod of a node and return what it printed."""

    def call(node, program):
        pod = f"python-{node}"
        if not kubectl("get", "pod", pod, "--ignore-not-found"):
            kubectl("apply", "-f", "-", stdin=python_pod(pod, node, ["sleep", "infinity"]))
            kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=60s")
        return kubectl("exec", "-i", pod, "--", "python3", "-", stdin=program).strip()

    return call


def python_pod(name, node, command):
    """A pod with Python, a disk of its node at /disk, and 64 MiB of memory."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "python",
                    "image": manifests.IMAGE,
                    "imagePullPolicy": "Never",
                    "command": command,
                    "securityContext": {"runAsUser": 0},
                    "resources": {"limits": {"memory": "64Mi"}},
                    "volumeMounts": [{"name": "disk", "mountPath": "/disk"}],
                }
            ],
            "volumes": [{"name": "disk", "hostPath": {"path": "/var/lib/disk", "type": "DirectoryOrCreate"}}],
        },
    }
