"""The operator as a process of its own, with the rights of `kube/permissions.py` and no others."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families

from stoker.kube.permissions import (
    IN_OWN_NAMESPACE,
    IN_WATCHED_NAMESPACES,
    TO_READ_CREDENTIALS,
    TO_READ_LOAD,
)

_ROOT = Path(__file__).parents[2]
_START_S = 30
_STOP_S = 30
_POLL_S = 0.05


@dataclass
class OperatorProcess:
    """One running `stoker operator`."""

    process: subprocess.Popen
    port: int
    identity: str
    log: Path

    def get(self, path):
        """Status and text of one of its HTTP endpoints; status 0 while the port is closed."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def samples(self, name):
        """Samples of a metric: a dict from its label values, in the order of their names, to the value."""
        _, text = self.get("/metrics")
        return {
            tuple(value for _, value in sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        }

    def writes(self):
        """Requests so far that changed something, but for the Lease."""
        calls = self.samples("stoker_api_requests_total")
        return sum(
            count
            for (_, resource, verb), count in calls.items()
            if verb not in ("get", "list") and resource != "leases"
        )

    def reconciles(self):
        """Reconciles so far."""
        return sum(self.samples("stoker_reconcile_total").values())

    def memory_bytes(self):
        """Resident memory now."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the process is gone")

    def cpu_s(self):
        """Processor time used so far, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def leads(self):
        """Whether it holds the Lease."""
        return self.samples("stoker_leader").get(()) == 1

    def is_idle(self):
        """Whether its queue is empty and no worker is busy."""
        waiting = self.samples("stoker_workqueue_depth").get(())
        working = self.samples("stoker_workqueue_working").get(())
        return waiting == working == 0

    def wait_until_ready(self):
        give_up_at = time.monotonic() + _START_S
        while self.get("/readyz")[0] != 200:
            assert self.process.poll() is None, f"the operator ended:\n{self.log.read_text()}"
            assert time.monotonic() < give_up_at, f"the operator is not ready:\n{self.log.read_text()}"
            time.sleep(_POLL_S)

    def terminate(self):
        """SIGTERM, as Kubernetes sends it; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_STOP_S)

    def kill(self):
        """SIGKILL, as the kernel does it when memory is short."""
        self.process.kill()
        self.process.wait(_STOP_S)


def start_operator(kubeconfig, folder, *, namespace, name="operator", **settings):
    """Start an operator whose Lease is in `namespace`; `settings` as the environment names them."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(_ROOT / "operator"),
        "PYTHONWARNINGS": "error::RuntimeWarning",
        "STOKER_KUBECONFIG": str(kubeconfig),
        "STOKER_NAMESPACE": namespace,
        "STOKER_IDENTITY": name,
        "STOKER_PORT": str(port),
    }
    environment |= {f"STOKER_{key.upper()}": str(value) for key, value in settings.items()}
    log = Path(folder) / f"{name}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "stoker", "operator"], env=environment, stdout=output, stderr=output
        )
    return OperatorProcess(process=process, port=port, identity=name, log=log)


def restricted_kubeconfig(api_server, kubectl, folder, *, namespace, watched=None):
    """A kubeconfig for an operator in `namespace` that may do what the chart's roles allow.

    In all namespaces, or in `watched` alone.
    """
    return account_kubeconfig(
        api_server,
        kubectl,
        folder,
        account="operator",
        namespace=namespace,
        rules={
            namespace: IN_OWN_NAMESPACE + TO_READ_LOAD,
            watched: IN_WATCHED_NAMESPACES + TO_READ_CREDENTIALS,
        },
    )


def account_kubeconfig(api_server, kubectl, folder, *, account, namespace, rules):
    """A kubeconfig for a service account in `namespace`; `rules` are by namespace, those of None for all."""
    for where, granted in rules.items():
        _grant(kubectl, granted, account=account, account_in=namespace, where=where)
    kubectl("create", "serviceaccount", account, "-n", namespace)
    token = kubectl("create", "token", account, "-n", namespace, "--duration=1h")
    config = yaml.safe_load(Path(api_server).read_text())
    config["users"] = [{"name": config["contexts"][0]["context"]["user"], "user": {"token": token}}]
    path = Path(folder) / f"{account}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def _grant(kubectl, rules, *, account, account_in, where):
    group = "rbac.authorization.k8s.io"
    kind = "ClusterRole" if where is None else "Role"
    metadata = {"name": f"{account}-{account_in}"} | ({"namespace": where} if where else {})
    role = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "rules": list(rules)}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": account_in}],
    }
    for manifest in (role, binding):
        kubectl("apply", "-f", "-", stdin=manifest)
