from pathlib import PurePosixPath

from e2e.cluster import cgroups

RUNTIME = PurePosixPath("stoker0/node-1/runtime")


def test_version_2_hands_controllers_down_to_the_node_but_not_into_the_group_of_its_processes(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(cgroups, "_ROOT", tmp_path)
    for folder in (tmp_path, tmp_path / "stoker0", tmp_path / "stoker0/node-1"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text("cpu memory pids\n")
    cgroups.create(RUNTIME)
    written = {
        str(file.parent.relative_to(tmp_path)): file.read_text()
        for file in tmp_path.rglob("cgroup.subtree_control")
    }
    assert written == dict.fromkeys([".", "stoker0", "stoker0/node-1"], "+cpu +memory +pids")


def test_version_1_makes_the_group_in_every_tree_of_a_controller(tmp_path, monkeypatch):
    monkeypatch.setattr(cgroups, "_ROOT", tmp_path)
    for tree in ("cpu", "memory", "unified"):
        (tmp_path / tree).mkdir()
    (tmp_path / "unified" / "cgroup.controllers").touch()
    cgroups.create(RUNTIME)
    assert sorted(str(group.relative_to(tmp_path)) for group in tmp_path.rglob("runtime")) == [
        f"cpu/{RUNTIME}",
        f"memory/{RUNTIME}",
    ]


def test_version_1_gives_a_group_the_cores_of_the_one_above_it(tmp_path, monkeypatch):
    monkeypatch.setattr(cgroups, "_ROOT", tmp_path)
    group = tmp_path / "cpuset" / "stoker0"
    group.mkdir(parents=True)
    for name, cores in (("cpuset.cpus", "0-1\n"), ("cpuset.mems", "0\n")):
        (group.parent / name).write_text(cores)
        (group / name).write_text("\n")
    cgroups.create(PurePosixPath("stoker0"))
    assert [(group / name).read_text() for name in ("cpuset.cpus", "cpuset.mems")] == ["0-1\n", "0\n"]
