import shutil

import pytest
from e2e.cluster import programs
from e2e.cluster.errors import ClusterError


@pytest.fixture
def module(tmp_path):
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "go.mod").write_text("module x\n\nrequire k8s.io/kubernetes v1.36.3\n")
    (folder / "go.sum").write_text("k8s.io/kubernetes v1.36.3 h1:abc=\n")
    return folder


def test_a_copy_of_a_module_has_the_same_hash(module, tmp_path):
    copy = shutil.copytree(module, tmp_path / "copy")
    assert programs.module_hash(copy) == programs.module_hash(module)


@pytest.mark.parametrize("name", ["go.mod", "go.sum", "main.go"])
def test_a_change_of_any_file_changes_the_hash(module, name):
    before = programs.module_hash(module)
    with (module / name).open("a") as file:
        file.write("// changed\n")
    assert programs.module_hash(module) != before


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("require k8s.io/kubernetes v1.36.3\n", id="on a line of its own"),
        pytest.param("require (\n\tk8s.io/kubernetes v1.36.3 // indirect\n)\n", id="in a list"),
    ],
)
def test_finds_the_version_a_module_requires(module, text):
    (module / "go.mod").write_text(f"module x\n\n{text}")
    assert programs.required_version(module, "k8s.io/kubernetes") == "v1.36.3"


def test_a_module_path_that_only_begins_alike_is_not_taken(module):
    with pytest.raises(ClusterError, match=r"requires no k8s\.io/kube$"):
        programs.required_version(module, "k8s.io/kube")


def test_an_unbuilt_program_names_the_command_that_builds_it(monkeypatch, tmp_path):
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path))
    with pytest.raises(ClusterError, match="kubectl isn't built yet: run `python -m e2e"):
        programs.program("kubectl")


def test_without_go_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="install Go"):
        programs.build(programs.CONTROL_PLANE)


def test_an_unknown_program_is_answered_with_those_there_are():
    with pytest.raises(ClusterError, match="no program kubeadm: there are etcd, kube-apiserver, "):
        programs.find("kubeadm")


def test_what_is_built_has_a_name_that_stays(monkeypatch, tmp_path):
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path))
    monkeypatch.setattr(programs, "_missing", lambda wanted: [])
    for _ in range(2):
        programs.build([programs.find("etcd")])
    assert (tmp_path / "bin" / "etcd").readlink().name == "etcd"
    assert (tmp_path / "bin" / "etcd").readlink().parent.name.startswith("etcd-")
