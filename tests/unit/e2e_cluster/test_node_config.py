import json
import tomllib

from e2e.cluster import dns, layout, node_config
from e2e.cluster.addresses import Network, Node


def node(number):
    return Node(network=Network(number=0), number=number)


def test_containerd_reads_a_version_3_file_with_the_pinned_sandbox_image():
    read = tomllib.loads(node_config.containerd_toml(cni_config="/state/node-1/cni"))
    assert read["version"] == 3
    images = read["plugins"]["io.containerd.cri.v1.images"]
    assert images["pinned_images"] == {"sandbox": node_config.PAUSE_IMAGE}
    runtime = read["plugins"]["io.containerd.cri.v1.runtime"]
    assert runtime["cni"]["conf_dir"] == "/state/node-1/cni"
    assert runtime["containerd"]["runtimes"]["runc"]["options"] == {"SystemdCgroup": False}


def test_every_node_gives_pods_addresses_of_its_own_range():
    first, second = (json.loads(node_config.cni_conflist(node(number))) for number in (1, 2))
    assert first["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.240.1.0/24"}]]
    assert second["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.240.2.0/24"}]]


def test_kubelet_keeps_its_pods_in_the_group_of_its_node():
    config = json.loads(node_config.kubelet_config(node(2), client_ca="/state/pki/ca.crt"))
    assert config["cgroupRoot"] == "/stoker0/node-2"
    assert config["clusterDNS"] == ["10.96.0.10"]


def test_the_dns_service_leads_to_the_port_that_coredns_binds(tmp_path):
    cluster = layout.plan(tmp_path, nodes=1)
    service, endpoints = json.loads(dns.service(cluster))["items"]
    (port,) = {port["port"] for port in endpoints["ports"]}
    assert dns.corefile(cluster).startswith(f"cluster.local:{port} ")
    assert dns.corefile(cluster).count(f"bind {cluster.address}\n") == 2
    assert endpoints["endpoints"][0]["addresses"] == [cluster.address]
    assert endpoints["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]
