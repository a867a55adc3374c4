import pytest
from e2e.cluster import build_settings


@pytest.fixture
def pip_conf(tmp_path, monkeypatch):
    file = tmp_path / "pip.conf"
    file.write_text("[global]\ntimeout = 5\ncert = /certs/one.pem\n[install]\nno-cache-dir = 1\n")
    monkeypatch.setattr(build_settings, "_PIP_FILES", (str(file),))


@pytest.mark.usefixtures("pip_conf")
def test_variables_win_over_files_and_other_commands_sections_are_left_out():
    options = build_settings.pip_config(
        {"PIP_CERT": "/certs/two.pem", "PIP_FIND_LINKS": "/w", "HOME": "/root"}
    )
    assert options == {"timeout": "5", "cert": "/certs/two.pem", "find-links": "/w"}


@pytest.mark.usefixtures("pip_conf")
def test_a_named_file_is_read_too(tmp_path):
    (tmp_path / "mine.conf").write_text("[global]\ntimeout = 9\n")
    options = build_settings.pip_config({"PIP_CONFIG_FILE": str(tmp_path / "mine.conf")})
    assert options["timeout"] == "9"


def test_folders_that_pip_is_told_of_are_mounted_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(build_settings, "_PIP_FILES", ())
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    environment = {"PIP_FIND_LINKS": f"{wheels} /no/such/folder"}
    volumes = build_settings.volumes(folder=tmp_path / "build", environment=environment)
    assert f"--volume={wheels}:{wheels}:ro" in volumes
    assert not any("/no/such/folder" in volume for volume in volumes)
    config = (tmp_path / "build" / "pip.conf").read_text()
    assert config == f"[global]\nfind-links = {wheels} /no/such/folder\n"
