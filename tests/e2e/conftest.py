"""One cluster with two nodes for all tests of this folder, beside any other that is up. Needs root.

It ends with the session. `STOKER_E2E_STATE=FOLDER` takes the cluster of that folder and leaves it up, so that
the next run need not start one; `python -m e2e.cluster down --state FOLDER` ends it.
"""

import os
from pathlib import Path

import pytest
from e2e.cluster import cluster


@pytest.fixture(scope="session")
def layout(tmp_path_factory):
    """The cluster, with nothing on it."""
    if kept := os.environ.get("STOKER_E2E_STATE"):
        yield cluster.up(Path(kept), nodes=2)
        return
    state = tmp_path_factory.mktemp("cluster")
    try:
        yield cluster.up(state, nodes=2)
    finally:
        cluster.down(state)


def pytest_terminal_summary(terminalreporter):
    """What tests measured: the properties that they recorded."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties if report.when == "call" else ():
            terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {name} {value}")
