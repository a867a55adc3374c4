"""The gateway as a process of its own, with the rights of `kube/permissions.py` and no others."""

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

from tests.cluster.operator_process import account_kubeconfig

from stoker.kube.permissions import GATEWAY_IN_OWN_NAMESPACE, GATEWAY_IN_WATCHED_NAMESPACES

_ROOT = Path(__file__).parents[2]
_START_S = 60
_STOP_S = 30
_POLL_S = 0.05


@dataclass
class GatewayProcess:
    """One running `stoker gateway`."""

    process: subprocess.Popen
    port: int
    admin_port: int
    log: Path

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def admin(self, path, *, worker=0):
        """Status and text of one of its admin endpoints; status 0 while the port is closed."""
        try:
            url = f"http://127.0.0.1:{self.admin_port + worker}{path}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def wait_until_ready(self, *, workers=1):
        give_up_at = time.monotonic() + _START_S
        while any(self.admin("/readyz", worker=n)[0] != 200 for n in range(workers)):
            assert self.process.poll() is None, f"the gateway ended:\n{self.log.read_text()}"
            assert time.monotonic() < give_up_at, f"the gateway is not ready:\n{self.log.read_text()}"
            time.sleep(_POLL_S)

    def children(self):
        """Process ids of its workers."""
        return [int(word) for word in self._proc(f"task/{self.process.pid}/children").split()]

    def cpu_s(self):
        """Processor time used so far, in seconds."""
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def maps(self):
        """What is mapped into its memory, so which libraries it has loaded."""
        return self._proc("maps")

    def _proc(self, name):
        return Path(f"/proc/{self.process.pid}/{name}").read_text()

    def stop(self):
        """SIGTERM, as Kubernetes sends it; does not wait."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self):
        """The exit status."""
        return self.process.wait(_STOP_S)


def start_gateway(kubeconfig, folder, *, name="gateway", command=None, environment=None, **settings):
    """Start a gateway; `settings` as the environment names them, without `STOKER_`."""
    port, admin_port = free_port(), free_port()
    told = {"KUBECONFIG": str(kubeconfig)} if kubeconfig else {}
    told |= {"PORT": port, "ADMIN_PORT": admin_port, "DRAIN_DELAY_SECONDS": 0, "DRAIN_SECONDS": 20}
    told |= {key.upper(): value for key, value in settings.items()}
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{_ROOT / 'operator'}:{_ROOT}",
        "PYTHONWARNINGS": "error::RuntimeWarning",
        **{f"STOKER_{key}": str(value) for key, value in told.items()},
        **(environment or {}),
    }
    log = Path(folder) / f"{name}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            command or [sys.executable, "-m", "stoker", "gateway"],
            env=environment,
            stdout=output,
            stderr=output,
        )
    return GatewayProcess(process=process, port=port, admin_port=admin_port, log=log)


def free_port():
    """A port that is free now."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def gateway_kubeconfig(api_server, kubectl, folder, *, namespace, watched=None):
    """A kubeconfig for a gateway in `namespace` that may do what the chart's roles allow."""
    return account_kubeconfig(
        api_server,
        kubectl,
        folder,
        account="gateway",
        namespace=namespace,
        rules={namespace: GATEWAY_IN_OWN_NAMESPACE, watched: GATEWAY_IN_WATCHED_NAMESPACES},
    )
