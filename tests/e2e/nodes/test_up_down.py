import json
import os
from pathlib import Path

import pytest
from e2e.cluster import cgroups, cluster, control_plane
from e2e.cluster.cluster import running_nodes
from e2e.cluster.processes import Processes


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "cluster"
    yield folder
    cluster.down(folder)


def names(layout):
    found = json.loads(control_plane.kubectl(layout, "get", "nodes", "-o", "json"))
    return [node["metadata"]["name"] for node in found["items"]]


def test_a_cluster_grows_heals_and_leaves_nothing(state):
    run_before = set(os.listdir("/run"))
    layout = cluster.up(state, nodes=1)
    assert names(layout) == ["node-1"]

    running_nodes(layout)[0].stop()
    layout = cluster.up(state, nodes=2)
    assert names(layout) == ["node-1", "node-2"]
    processes = Processes(state=state)
    started = [processes.get(name) for name in processes.names()]
    assert all(process.alive for process in started)
    assert cgroups.members(layout.network.cgroup)

    cluster.down(state)
    assert not any(process.alive for process in started)
    assert not state.exists()
    assert cgroups.members(layout.network.cgroup) == []
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{layout.network.cgroup}"))
    assert not [name for name in os.listdir("/sys/class/net") if name.startswith(layout.network.bridge)]
    assert str(state) not in Path("/proc/self/mountinfo").read_text()
    assert not {
        name for name in set(os.listdir("/run")) - run_before if "containerd" in name or name == "netns"
    }
