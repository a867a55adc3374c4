"""What of this machine's settings an image build needs: how pip is configured here, and whom to trust.

They are mounted while the image is built and never lines of a Dockerfile, so the same Dockerfile
builds behind a company's package mirror, with wheels on disk, or on a plain machine.
"""

import configparser
import os
from collections.abc import Mapping
from pathlib import Path

_PIP_FILES = ("/etc/xdg/pip/pip.conf", "/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
"""In the order in which pip reads them; a later one wins."""
_CERTIFICATES = Path("/etc/ssl/certs")


def pip_config(environment: Mapping[str, str]) -> dict[str, str]:
    """Options for every pip command, from pip's files and the variables ``PIP_*``, which win.

    Example: ``PIP_FIND_LINKS=/opt/wheels`` -> ``{"find-links": "/opt/wheels"}``.
    """
    read = configparser.RawConfigParser()
    files = [str(Path(file).expanduser()) for file in _PIP_FILES]
    read.read([*files, *([named] if (named := environment.get("PIP_CONFIG_FILE")) else [])])
    options = dict(read["global"]) if read.has_section("global") else {}
    for name, value in environment.items():
        if name.startswith("PIP_") and name != "PIP_CONFIG_FILE":
            options[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    return {name: value for name, value in options.items() if value}


def volumes(*, folder: Path, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Arguments of ``buildah bud`` that mount the settings; ``folder`` keeps pip's file and its cache."""
    options = pip_config(environment)
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "pip.conf"
    config.write_text(
        "".join(["[global]\n", *(f"{name} = {value}\n" for name, value in sorted(options.items()))])
    )
    cache = folder / "pip"
    cache.mkdir(exist_ok=True)
    read_only = {Path("/etc/pip.conf"): config, _CERTIFICATES: _CERTIFICATES}
    for path in (Path(word) for value in options.values() for word in value.split()):
        if path.is_absolute() and path.exists() and not path.is_relative_to(_CERTIFICATES):
            read_only[path] = path
    mounts = [f"{source}:{target}:ro" for target, source in read_only.items()]
    return [f"--volume={mount}" for mount in [*mounts, f"{cache}:/root/.cache/pip"]]
