"""How a node is started and ended: one holder process with a network and a mount namespace.

containerd, kubelet and kube-proxy enter the holder's namespaces. They must share one mount
namespace (``ip netns exec`` would make a new one each time), or containerd would not see the
volumes that kubelet mounts. Nothing of a node is mounted in or named on this machine: when its
last process ends, its mounts and networks are gone too.
"""

from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import cgroups, image_store, network, node_config
from e2e.cluster.addresses import Node
from e2e.cluster.command import run, wait_for
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import Layout
from e2e.cluster.pki import Authority
from e2e.cluster.processes import Processes
from e2e.cluster.programs import cache_dir, program

_STARTED_DEADLINE_S = 30
_IMPORT_DEADLINE_S = 900
_ID_LABEL = "stoker.dev/image-id"
_HIDDEN = ("/run", "/var/lib", "/var/log")
"""Folders of this machine that a node sees its own of."""

_HOLD = """\
set -e
mount -t tmpfs tmpfs /run
mount --bind "$1" /var/lib
mount --bind "$2" /var/log
mount --make-rshared /
echo 1 > /proc/sys/net/ipv4/ip_forward
exec sleep infinity
"""
"""Shared again at the end, so that mounts may travel between pods and the node as on a real one."""


def image_id_label(image_id: str) -> str:
    """What a node's image list says of an image: which one buildah had under that name."""
    return f"{_ID_LABEL}={image_id}"


def check_paths(state: Path) -> None:
    """Raise ClusterError if nodes could not see the folders that they need."""
    for what, path in (("--state", state), ("$STOKER_CACHE", cache_dir())):
        for hidden in _HIDDEN:
            if path.is_relative_to(hidden):
                raise ClusterError(
                    f"{what} is {path}, but nodes have a {hidden} of their own: choose another"
                )


class RunningNode:
    """A node and the files of its cluster."""

    def __init__(self, node: Node, *, layout: Layout, processes: Processes) -> None:
        self.node = node
        self._layout = layout
        self._processes = processes
        self._folder = layout.state / "nodes" / node.name

    def start_holder(self) -> int:
        """Start the process that keeps the namespaces, and connect it; returns its id.

        If it died, what is left of the node dies too: namespaces can't be entered again.
        """
        holder = self._processes.get(self._name("holder"))
        if holder is None or not holder.alive:
            self.stop()
        folders = [self._folder / "lib", self._folder / "log"]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        unshare = ("/usr/bin/unshare", "--net", "--mount", "--propagation", "private")
        pid = self._start("holder", [*unshare, "/bin/sh", "-c", _HOLD, "stoker-node", *folders])
        wait_for(
            f"the namespaces of {self.node.name}", lambda: self._not_held(pid), deadline_s=_STARTED_DEADLINE_S
        )
        network.connect(self.node, holder_pid=pid)
        return pid

    def start_containerd(self) -> None:
        """Start the container runtime and wait until it answers."""
        cni = self._folder / "cni"
        cni.mkdir(parents=True, exist_ok=True)
        image_store.link_to(self._folder / "lib" / "containerd")
        (cni / "10-stoker.conflist").write_text(node_config.cni_conflist(self.node))
        config = self._folder / "containerd.toml"
        config.write_text(node_config.containerd_toml(cni_config=str(cni)))
        self._start(
            "containerd", [*self._inside(), program("containerd"), "--config", config], configured_by=[config]
        )
        wait_for(f"containerd of {self.node.name}", self._containerd_missing, deadline_s=_STARTED_DEADLINE_S)

    def start_kubernetes(self) -> None:
        """Start kubelet and kube-proxy; does not wait for Ready."""
        authority = Authority(self._layout.state / "pki")
        config = self._folder / "kubelet.json"
        config.write_text(node_config.kubelet_config(self.node, client_ca=str(authority.certificate)))
        kubelet_user = self._kubeconfig("kubelet", f"/O=system:nodes/CN=system:node:{self.node.name}")
        proxy_user = self._kubeconfig("kube-proxy", "/CN=system:kube-proxy")
        self._start(
            "kubelet",
            [
                *self._inside(),
                program("kubelet"),
                *(f"--config={config}", f"--kubeconfig={kubelet_user}"),
                *(f"--hostname-override={self.node.name}", f"--node-ip={self.node.address}"),
            ],
            configured_by=[config],
        )
        self._start(
            "kube-proxy",
            [
                *self._inside(),
                program("kube-proxy"),
                *(f"--kubeconfig={proxy_user}", f"--hostname-override={self.node.name}"),
                *("--proxy-mode=nftables", f"--cluster-cidr={self.node.network.pod_range}"),
                # Limits of connection tracking belong to the machine and stay as they are.
                *("--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0"),
            ],
        )

    def ctr(self, *words: str, deadline_s: float = 60) -> str:
        """Run containerd's own client on the node, in the namespace of Kubernetes' images."""
        inside = [str(word) for word in self._inside()]
        return run(*inside, program("ctr"), "--namespace=k8s.io", *words, deadline_s=deadline_s)

    def import_image(self, archive: Path) -> None:
        """Unpack an image archive on the node."""
        self.ctr("images", "import", str(archive), deadline_s=_IMPORT_DEADLINE_S)

    def has_image(self, name: str, image_id: str) -> bool:
        """Whether the node has this very image under a name."""
        return bool(self.ctr("images", "list", "--quiet", f'name=={name},labels."{_ID_LABEL}"=={image_id}'))

    def label_image(self, name: str, image_id: str) -> None:
        """Remember which image was imported under a name."""
        self.ctr("images", "label", name, image_id_label(image_id))

    def stop(self) -> None:
        """End every process of the node at once, pods included. Its disk stays."""
        cgroups.remove(self.node.cgroup)
        for part in ("kubelet", "kube-proxy", "containerd", "holder"):
            self._processes.stop(self._name(part))
        network.disconnect(self.node)

    def _name(self, part: str) -> str:
        return f"{self.node.name}-{part}"

    def _start(self, part: str, command: list[str | Path], *, configured_by: Sequence[Path] = ()) -> int:
        process = self._processes.start(self._name(part), command, configured_by=configured_by)
        runtime = self.node.cgroup / "runtime"
        cgroups.create(runtime)
        cgroups.add(runtime, process.pid)
        return process.pid

    def _inside(self) -> list[str | Path]:
        """What comes before a command that is to run on the node."""
        holder = self._processes.get(self._name("holder"))
        if holder is None or not holder.alive:
            raise ClusterError(f"{self.node.name} isn't up: run `up`")
        return ["/usr/bin/nsenter", f"--target={holder.pid}", "--net", "--mount"]

    def _kubeconfig(self, name: str, subject: str) -> Path:
        authority = Authority(self._layout.state / "pki")
        file = self._folder / f"{name}.kubeconfig"
        issued = f"{self.node.name}-{name}"
        file.write_text(authority.kubeconfig(issued, subject, server=self._layout.api_url))
        return file

    def _not_held(self, pid: int) -> str | None:
        self._processes.check_alive(self._name("holder"))
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return None if command.startswith(b"sleep\0") else "its mounts are being made"

    def _containerd_missing(self) -> str | None:
        self._processes.check_alive(self._name("containerd"))
        try:
            self.ctr("version", deadline_s=10)
        except ClusterError as error:
            return str(error)
        return None
