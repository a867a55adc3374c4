"""Which programs the cluster is made of, and how they are built from Go modules.

Each folder of ``modules/`` is one Go module, because their dependencies clash. What was built from
one lies in ``$STOKER_CACHE/bin/<module>-<hash of its files>/``, so a second run builds nothing and
a changed version builds only its own module. The order lets a control plane start first.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.command import run
from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import Progress

_MODULES = Path(__file__).parent / "modules"
_BUILD_DEADLINE_S = 1800
_OLDEST_GO = (1, 21)
"""The first that fetches by itself the toolchain that a go.mod asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One executable and where it comes from."""

    name: str
    module: str
    """Folder of ``modules/``."""
    package: str
    """What ``go build`` is given."""


def _kubernetes(name: str) -> Program:
    return Program(name=name, module="kubernetes", package=f"k8s.io/kubernetes/cmd/{name}")


def _containerd(name: str) -> Program:
    return Program(name=name, module="containerd", package=f"github.com/containerd/containerd/v2/cmd/{name}")


CONTROL_PLANE = (
    Program(name="etcd", module="etcd", package="."),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kubectl"),
)
"""What a control plane alone needs."""

PROGRAMS = (
    *CONTROL_PLANE,
    Program(name="helm", module="helm", package="helm.sh/helm/v4/cmd/helm"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubelet"),
    _kubernetes("kube-proxy"),
    _containerd("containerd"),
    _containerd("containerd-shim-runc-v2"),
    _containerd("ctr"),
    Program(name="coredns", module="coredns", package="github.com/coredns/coredns"),
    Program(name="pause", module="pause", package="."),
)
"""Everything, in the order of building."""


def cache_dir() -> Path:
    """Where what is slow to make is kept between checkouts: ``$STOKER_CACHE`` or ``~/.cache/stoker``."""
    return Path(os.environ.get("STOKER_CACHE") or Path.home() / ".cache" / "stoker").absolute()


def module_hash(module: Path) -> str:
    """12 hex digits that change when a file of the Go module or the machine's architecture does."""
    seen = hashlib.sha256(platform.machine().encode())
    for file in sorted(module.iterdir()):
        seen.update(f"\n{file.name}\n".encode() + file.read_bytes())
    return seen.hexdigest()[:12]


def find(name: str) -> Program:
    """The program of a name. Raises ClusterError if the cluster has none such."""
    for one in PROGRAMS:
        if one.name == name:
            return one
    raise ClusterError(f"no program {name}: there are {', '.join(one.name for one in PROGRAMS)}")


def program(name: str) -> Path:
    """Path of a built program. Raises ClusterError if it isn't built yet."""
    path = _path(find(name))
    if not path.exists():
        raise ClusterError(f"{name} isn't built yet: run `python -m e2e.cluster build`")
    return path


def required_version(module: Path, path: str) -> str:
    """The version of a dependency that a module's go.mod asks for, such as ``v1.36.3``."""
    found = re.search(
        rf"^(?:require)?\s+{re.escape(path)} (v\S+)", (module / "go.mod").read_text(), re.MULTILINE
    )
    if found is None:
        raise ClusterError(f"{module / 'go.mod'} requires no {path}")
    return found[1]


def kubernetes_version() -> str:
    """The version of Kubernetes that the cluster runs, such as ``v1.36.3``."""
    return required_version(_MODULES / "kubernetes", "k8s.io/kubernetes")


def build(wanted: Iterable[Program] = PROGRAMS) -> None:
    """Build the programs that the cache lacks; show each step, and link all in ``$STOKER_CACHE/bin``.

    A second caller waits for the first instead of compiling the same. Raises ClusterError
    without a Go toolchain, or with the compiler's message.
    """
    wanted = tuple(wanted)
    bin_dir = cache_dir() / "bin"
    bin_dir.mkdir(parents=True, exist_ok=True)
    if _missing(wanted):
        _check_go()
        with (bin_dir / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            missing = _missing(wanted)
            progress = Progress(total=len(missing))
            for one in missing:
                progress.step(f"build {one.name} (Go module {one.module})")
                _build_one(one)
    for one in wanted:
        _link(bin_dir / one.name, target=_path(one))


def _link(link: Path, *, target: Path) -> None:
    """A name that stays the same from version to version, for people and Makefiles."""
    if not link.is_symlink() or link.readlink() != target:
        new = link.with_name(f".{link.name}-{os.getpid()}")
        new.symlink_to(target)
        new.rename(link)


def _missing(wanted: Iterable[Program]) -> list[Program]:
    return [one for one in wanted if not _path(one).exists()]


def _path(wanted: Program) -> Path:
    key = module_hash(_MODULES / wanted.module)
    return cache_dir() / "bin" / f"{wanted.module}-{key}" / wanted.name


def _build_one(wanted: Program) -> None:
    path = _path(wanted)
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_name(f".{wanted.name}")
    run(
        *("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", _linker_flags(wanted.module)),
        *("-o", unfinished, wanted.package),
        cwd=_MODULES / wanted.module,
        env={**os.environ, "CGO_ENABLED": "0"},
        deadline_s=_BUILD_DEADLINE_S,
    )
    unfinished.rename(path)


def _linker_flags(module: str) -> str:
    """Small files, and the version where Kubernetes looks for it.

    Without it the server says v0.0.0, and charts that ask for a version are refused.
    """
    if module != "kubernetes":
        return "-s -w"
    version = kubernetes_version()
    holders = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w", *(f"-X {holder}.gitVersion={version}" for holder in holders)])


def _check_go() -> None:
    if shutil.which("go") is None:
        raise ClusterError("the cluster is built from Go modules, but there is no `go` on PATH: install Go")
    version = run("go", "env", "GOVERSION").strip()
    found = re.match(r"go(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < _OLDEST_GO:
        raise ClusterError(f"{version} is too old: install Go {_OLDEST_GO[0]}.{_OLDEST_GO[1]} or newer")
