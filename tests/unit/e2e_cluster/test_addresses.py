import ipaddress
from itertools import combinations

from e2e.cluster.addresses import MOST_NETWORKS, MOST_NODES, Network, Node

NETWORKS = [Network(number=number) for number in range(MOST_NETWORKS)]


def test_no_two_ranges_of_this_machine_overlap():
    ranges = [
        ipaddress.ip_network(text)
        for network in NETWORKS
        for text in (network.pod_range, network.service_range, f"{network.address}/24")
        if not text.startswith("10.250")
    ]
    ranges.append(ipaddress.ip_network("10.250.0.0/16"))
    assert not [pair for pair in combinations(ranges, 2) if pair[0].overlaps(pair[1])]


def test_every_node_has_an_address_and_pods_of_its_network():
    for network in NETWORKS:
        bridge = ipaddress.ip_network(f"{network.address}/24", strict=False)
        nodes = [Node(network=network, number=number) for number in (1, MOST_NODES)]
        for node in nodes:
            assert ipaddress.ip_address(node.address) in bridge
            assert ipaddress.ip_network(node.pod_range).subnet_of(ipaddress.ip_network(network.pod_range))


def test_services_have_the_addresses_that_kubernetes_expects():
    for network in NETWORKS:
        hosts = ipaddress.ip_network(network.service_range).hosts()
        assert network.kubernetes_service_address == str(next(hosts))
        assert ipaddress.ip_address(network.dns_service_address) in ipaddress.ip_network(
            network.service_range
        )


def test_names_of_interfaces_fit_the_kernel():
    assert len(Node(network=NETWORKS[-1], number=MOST_NODES).cable) <= 15
