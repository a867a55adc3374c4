import os
import signal
import socket
from pathlib import Path

import pytest
from e2e.cluster import cluster, layout, status
from e2e.cluster.command import wait_for
from e2e.cluster.errors import ClusterError
from e2e.cluster.processes import Processes


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "control-plane"
    yield folder
    cluster.down(folder)


def test_up_starts_only_what_does_not_run_and_down_leaves_nothing(state):
    cluster.up(state, nodes=0)
    processes = Processes(state=state)
    first = {name: processes.get(name) for name in processes.names()}
    assert sorted(first) == ["etcd", "kube-apiserver", "kube-controller-manager"]

    manager = first["kube-controller-manager"]
    os.kill(manager.pid, signal.SIGKILL)
    wait_for("its end", lambda: "alive" if manager.alive else None, deadline_s=20)
    assert "kube-controller-manager      ended by itself" in status.describe(state)
    manager.reap()

    cluster.up(state, nodes=0)
    second = {name: processes.get(name) for name in processes.names()}
    assert {name for name in first if first[name] != second[name]} == {"kube-controller-manager"}

    cluster.down(state)
    assert not any(process.alive for process in (*first.values(), *second.values()))
    assert not state.exists()
    cluster.down(state)


def test_a_taken_port_is_named_and_nothing_is_started(state):
    planned = layout.plan(state, nodes=0)
    planned.save()
    message = f"etcd needs 127.0.0.1:{planned.etcd_port}, which another program has"
    with (
        socket.create_server(("127.0.0.1", planned.etcd_port)),
        pytest.raises(ClusterError, match=message),
    ):
        cluster.up(state, nodes=0)
    assert Processes(state=state).names() == []


def test_two_commands_do_not_work_on_one_cluster_at_once(state):
    layout.plan(state, nodes=0).save()
    with cluster.locked(state), pytest.raises(ClusterError, match="another command works on the cluster"):
        cluster.down(state)


def test_a_folder_that_is_not_a_cluster_is_left_alone(tmp_path):
    (tmp_path / "precious").write_text("mine")
    cluster.down(tmp_path)
    assert Path(tmp_path / "precious").read_text() == "mine"
