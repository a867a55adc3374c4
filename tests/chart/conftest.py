"""What the tests of the chart share: Helm, and the chart rendered for each case."""

import functools

import pytest
from e2e.cluster import cluster, programs
from tests.chart.cases import CASES
from tests.chart.cluster import ApiServer
from tests.chart.helm import Helm


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the chart renders now to tests/chart/golden/, to be read in the diff",
    )


@pytest.fixture(scope="session")
def helm():
    programs.build(one for one in programs.PROGRAMS if one.name == "helm")
    return Helm(programs.program("helm"))


@pytest.fixture(scope="session")
def rendered(helm):
    """The objects of a case by its name, without the CRDs; not to be changed by a test."""

    @functools.cache
    def objects(name):
        case = CASES[name]
        values = {"crds": {"enabled": False}, **case.values}
        return helm.template(values=values, release=case.release, namespace=case.namespace)

    return objects


@pytest.fixture(scope="session")
def api_server(tmp_path_factory):
    """One of our own: in that of `tests/cluster` the CRDs are there before Helm comes."""
    state = tmp_path_factory.mktemp("chart-control-plane")
    try:
        yield ApiServer(cluster.up(state, nodes=0))
    finally:
        cluster.down(state)
