import hashlib
import io
import json
import tarfile

from e2e.cluster.node_config import PAUSE_IMAGE
from e2e.cluster.pause_image import write_pause_archive


def test_the_archive_holds_the_program_under_the_pinned_name(tmp_path):
    program = tmp_path / "pause"
    program.write_bytes(b"\x7fELF")
    write_pause_archive(tmp_path / "pause.tar", program=program)
    with tarfile.open(tmp_path / "pause.tar") as archive:
        files = {name: archive.extractfile(name).read() for name in archive.getnames()}
    (image,) = json.loads(files["manifest.json"])
    assert image["RepoTags"] == [PAUSE_IMAGE]
    (layer,) = (files[name] for name in image["Layers"])
    config = json.loads(files[image["Config"]])
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as root:
        (member,) = root.getmembers()
        assert (member.name, member.mode) == ("pause", 0o755)
        assert root.extractfile(member).read() == b"\x7fELF"
