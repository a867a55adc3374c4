"""The sandbox image of every pod, made from one program without a container engine."""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

from e2e.cluster.node_config import PAUSE_IMAGE

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_pause_archive(archive: Path, *, program: Path) -> None:
    """Write an image that holds one static program, in the format of ``docker save``."""
    layer = _tar({"pause": program.read_bytes()}, mode=0o755)
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [PAUSE_IMAGE], "Layers": ["layer.tar"]}]
    files = {
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest).encode(),
    }
    archive.write_bytes(_tar(files, mode=0o644))


def _tar(files: dict[str, bytes], *, mode: int) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    return written.getvalue()
