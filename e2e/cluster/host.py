"""What a cluster with nodes needs of this machine: root, Debian packages, and a few kernel settings."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster.command import run
from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import Progress

CONTROL_PLANE_TOOLS = {"openssl": "openssl"}
"""Program, or path of a file, and the Debian package that has it."""

NODE_TOOLS = {
    **CONTROL_PLANE_TOOLS,
    "runc": "runc",
    "ip": "iproute2",
    "nft": "nftables",
    "iptables": "iptables",
    "mount": "mount",
    "nsenter": "util-linux",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
}

IMAGE_TOOLS = {"buildah": "buildah", "debootstrap": "debootstrap"}

_INSTALL_DEADLINE_S = 900
_KERNEL = Path("/proc/sys")
_BOOT = "kernel/random/boot_id"
_WANTED = {"fs/inotify/max_user_instances": 8192}
"""The default of 128 is used up by the second node."""
_SET_BY_KUBELET = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
"""For the whole machine, without asking (kubelet's ``--protect-kernel-defaults`` could only refuse)."""


def check_root(*, why: str) -> None:
    """Raise ClusterError, which begins with the reason, unless this is root."""
    if os.geteuid() != 0:
        raise ClusterError(f"{why}: run this as root")


def missing_packages(tools: Mapping[str, str]) -> list[str]:
    """The Debian packages of the tools that this machine lacks."""
    return sorted({package for tool, package in tools.items() if shutil.which(tool) is None})


def install_missing(tools: Mapping[str, str]) -> None:
    """Install what is missing with apt-get, and say so.

    Raises ClusterError naming the packages where that can't be done.
    """
    packages = missing_packages(tools)
    if not packages:
        return
    listed = " ".join(packages)
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise ClusterError(f"programs are missing: install what Debian calls {listed}")
    progress = Progress(total=1)
    progress.step(f"install Debian packages: {listed}")
    apt = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=600")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(*apt, "update", env=env, deadline_s=_INSTALL_DEADLINE_S)
    run(*apt, "install", "--no-install-recommends", *packages, env=env, deadline_s=_INSTALL_DEADLINE_S)


def change_kernel_settings(saved: Path) -> None:
    """Set what nodes need, after writing the values of before to a file, once in a boot of the machine."""
    if not saved.exists() or json.loads(saved.read_text())[_BOOT] != (_KERNEL / _BOOT).read_text().strip():
        before = {name: (_KERNEL / name).read_text().strip() for name in (_BOOT, *_WANTED, *_SET_BY_KUBELET)}
        saved.parent.mkdir(parents=True, exist_ok=True)
        saved.write_text(json.dumps(before, indent=2) + "\n")
    for name, least in _WANTED.items():
        if int((_KERNEL / name).read_text()) < least:
            (_KERNEL / name).write_text(str(least))


def restore_kernel_settings(saved: Path) -> None:
    """Write the values of before back."""
    if saved.exists():
        for name, value in json.loads(saved.read_text()).items():
            if name != _BOOT:
                (_KERNEL / name).write_text(value)
        saved.unlink()
