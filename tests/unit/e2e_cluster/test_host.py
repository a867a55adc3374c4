import json

import pytest
from e2e.cluster import host
from e2e.cluster.errors import ClusterError


def test_finds_the_packages_of_missing_programs(tmp_path):
    (tmp_path / "bridge").touch(mode=0o755)
    tools = {
        "sh": "dash",
        "no-such-program": "nosuch",
        str(tmp_path / "bridge"): "cni",
        "/no/bridge": "cni-2",
    }
    assert host.missing_packages(tools) == ["cni-2", "nosuch"]


def test_without_apt_the_packages_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="programs are missing: install what Debian calls nosuch"):
        host.install_missing({"no-such-program": "nosuch"})


def test_without_root_says_what_to_do(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="nodes need namespaces: run this as root"):
        host.check_root(why="nodes need namespaces")


def test_kernel_settings_come_back_as_they_were(tmp_path, monkeypatch):
    names = ("fs/inotify/max_user_instances", "kernel/panic", "vm/overcommit_memory")
    for name in names:
        (tmp_path / "sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / name).write_text("1\n")
    boot = tmp_path / "sys" / "kernel/random/boot_id"
    boot.parent.mkdir()
    boot.write_text("first\n")
    monkeypatch.setattr(host, "_KERNEL", tmp_path / "sys")
    monkeypatch.setattr(host, "_SET_BY_KUBELET", names[1:])
    saved = tmp_path / "saved.json"

    host.change_kernel_settings(saved)
    assert int((tmp_path / "sys" / names[0]).read_text()) >= 8192
    (tmp_path / "sys" / "kernel/panic").write_text("10\n")
    host.change_kernel_settings(saved)
    assert json.loads(saved.read_text())["kernel/panic"] == "1"

    host.restore_kernel_settings(saved)
    assert [(tmp_path / "sys" / name).read_text().strip() for name in names] == ["1", "1", "1"]
    assert boot.read_text() == "first\n"
    assert not saved.exists()

    host.change_kernel_settings(saved)
    boot.write_text("second\n")
    (tmp_path / "sys" / "kernel/panic").write_text("7\n")
    host.change_kernel_settings(saved)
    assert json.loads(saved.read_text())["kernel/panic"] == "7"
