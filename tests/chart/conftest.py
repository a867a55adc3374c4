"""What the tests of the chart share: Helm, and the chart rendered for each case."""

import functools
import os
from pathlib import Path

import pytest
from tests.chart.cases import CASES
from tests.chart.helm import Helm


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the chart renders now to tests/chart/golden/, to be read in the diff",
    )


@pytest.fixture(scope="session")
def helm():
    cache = Path(os.environ.get("STOKER_CACHE", Path.home() / ".cache" / "stoker"))
    return Helm(cache / "bin" / "helm")


@pytest.fixture(scope="session")
def rendered(helm):
    """The objects of a case by its name, without the CRDs; not to be changed by a test."""

    @functools.cache
    def objects(name):
        case = CASES[name]
        values = {"crds": {"enabled": False}, **case.values}
        return helm.template(values=values, release=case.release, namespace=case.namespace)

    return objects
