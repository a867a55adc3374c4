import json

import pytest
from e2e.cluster.command import wait_for
from e2e.file_server import manifests
from tests.e2e.nodes.conftest import NAMESPACE, python_pod

FETCH = """
import ssl, time, urllib.error, urllib.request
context = ssl.create_default_context(cadata={authority!r})
give_up_at = time.monotonic() + 20
while True:
    try:
        with urllib.request.urlopen({url!r}, context=context, timeout=10) as answer:
            print(answer.status, len(answer.read()))
        break
    except urllib.error.HTTPError as error:
        print(error.code)
        break
    except urllib.error.URLError as error:
        if not isinstance(error.reason, ConnectionRefusedError) or time.monotonic() > give_up_at:
            raise
        time.sleep(0.1)
"""
"""A node refuses connections to a Service until its kube-proxy has heard of the first Ready pod."""


@pytest.fixture(scope="module")
def authority(kubectl, tmp_path_factory):
    """The file server is up; what its clients must trust."""
    tls = manifests.make_tls(tmp_path_factory.mktemp("tls"), namespace=NAMESPACE)
    for one in manifests.manifests(tls, namespace=NAMESPACE):
        kubectl("apply", "-f", "-", stdin=one)
    kubectl("rollout", "status", f"deployment/{manifests.NAME}", "--timeout=60s")
    return tls.authority.decode()


@pytest.mark.parametrize("node", ["node-1", "node-2"])
def test_a_pod_of_any_node_reaches_a_service_by_its_name(python, authority, node):
    url = manifests.url("tiny/SHA256SUMS", namespace=NAMESPACE)
    status, size = python(node, FETCH.format(authority=authority, url=url)).split()
    assert (status, int(size) > 64) == ("200", True)


def test_the_file_server_fails_on_demand(python, authority):
    url = manifests.url("~status=403/tiny/SHA256SUMS", namespace=NAMESPACE)
    assert python("node-1", FETCH.format(authority=authority, url=url)) == "403"


def test_a_name_outside_does_not_exist_at_once(python):
    program = """
import socket, time
started = time.monotonic()
try:
    socket.getaddrinfo("example.org", 443)
except socket.gaierror as error:
    print(error.errno == socket.EAI_NONAME, time.monotonic() - started < 2)
"""
    assert python("node-1", program) == "True True"


def test_every_node_has_a_disk_of_its_own(python):
    for node in ("node-1", "node-2"):
        python(node, f"open('/disk/{node}', 'w').close()")
    assert python("node-1", "import os; print(os.listdir('/disk'))") == "['node-1']"
    assert python("node-2", "import os; print(os.listdir('/disk'))") == "['node-2']"


def test_a_pod_over_its_memory_limit_is_killed(kubectl):
    greedy = ["python3", "-c", "bytearray(b'x' * 500_000_000)"]
    kubectl("apply", "-f", "-", stdin=python_pod("greedy", "node-2", greedy))

    def missing():
        pod = json.loads(kubectl("get", "pod", "greedy", "-o", "json"))
        for container in pod["status"].get("containerStatuses", []):
            if "terminated" in container["state"]:
                assert container["state"]["terminated"]["reason"] == "OOMKilled"
                return None
        return pod["status"]["phase"]

    wait_for("the end of the pod", missing, deadline_s=60)


def test_logs_of_a_pod_can_be_read(kubectl):
    kubectl("apply", "-f", "-", stdin=python_pod("talker", "node-2", ["python3", "-c", "print('hello')"]))
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/talker", "--timeout=60s")
    assert kubectl("logs", "talker") == "hello\n"
