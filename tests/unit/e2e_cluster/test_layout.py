import pytest
from e2e.cluster import layout
from e2e.cluster.errors import ClusterError


def test_a_control_plane_alone_listens_on_loopback_and_on_ports_that_differ(tmp_path):
    first = layout.plan(tmp_path / "first", nodes=0)
    assert first.address == "127.0.0.1"
    assert len({first.api_port, first.etcd_port, first.etcd_peer_port}) == 3


def test_what_was_saved_is_planned_again(tmp_path):
    first = layout.plan(tmp_path, nodes=2)
    first.save()
    assert layout.plan(tmp_path, nodes=2) == first


def test_a_cluster_can_grow(tmp_path):
    layout.plan(tmp_path, nodes=2).save()
    assert layout.plan(tmp_path, nodes=5).nodes == 5


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        pytest.param(2, 1, "holds 2 nodes and 1 are wanted: run `down` first", id="fewer nodes"),
        pytest.param(2, 0, "holds a cluster with nodes", id="nodes to a control plane alone"),
        pytest.param(0, 2, "holds a cluster without nodes", id="a control plane alone to nodes"),
    ],
)
def test_refuses_what_only_down_can_do(tmp_path, before, after, message):
    layout.plan(tmp_path, nodes=before).save()
    with pytest.raises(ClusterError, match=message):
        layout.plan(tmp_path, nodes=after)


def test_a_folder_of_another_version_is_told_apart(tmp_path):
    (tmp_path / "cluster.json").write_text('{"nodes": 2}')
    with pytest.raises(ClusterError, match="is from another version of this program"):
        layout.load(tmp_path)


def test_the_two_sizes_have_folders_of_their_own(monkeypatch):
    monkeypatch.delenv("STOKER_CLUSTER_STATE", raising=False)
    assert layout.default_state(control_plane_only=True) != layout.default_state(control_plane_only=False)
