"""What the programs of a node are told: containerd, the network of pods, kubelet.

A node's mount namespace has a /run, a /var/lib and a /var/log of its own, so all paths are the
programs' defaults and equal on every node.
"""

import json

from e2e.cluster.addresses import CLUSTER_DOMAIN, Node

CNI_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")
PAUSE_IMAGE = "localhost/pause:dev"


def containerd_toml(*, cni_config: str) -> str:
    """containerd's configuration, version 3. ``cni_config`` is the folder of the pod network's."""
    return f"""\
version = 3

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{PAUSE_IMAGE}"

[plugins.'io.containerd.cri.v1.runtime']
  # Without the capability CAP_SYS_RESOURCE, as in many virtual machines, no sandbox would start.
  restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = {json.dumps(CNI_FOLDERS)}
  conf_dir = "{cni_config}"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = false
"""


def cni_conflist(node: Node) -> str:
    """The pod network: a bridge inside the node, addresses from the node's own range, host ports."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": node.pod_range}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": ipam,
    }
    host_ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "0.4.0", "name": "stoker", "plugins": [bridge, host_ports]}, indent=2)


def kubelet_config(node: Node, *, client_ca: str) -> str:
    """kubelet's configuration file; JSON is YAML too."""
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": client_ca},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{node.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDNS": [node.network.dns_service_address],
            "clusterDomain": CLUSTER_DOMAIN,
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "resolvConf": "",
            # Nodes share one disk: its last percent is for all, and images come only by import.
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
            },
            "imageGCHighThresholdPercent": 100,
            "maxPods": 200,
        },
        indent=2,
    )
