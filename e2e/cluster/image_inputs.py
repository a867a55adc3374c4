"""Whether an image is still that of its inputs: one hash over its Dockerfile and all that it copies."""

import hashlib
import re
import shlex
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath


def copied(dockerfile: str) -> list[str]:
    """The sources of COPY and ADD in a Dockerfile, without those from another stage.

    Example: ``COPY --chown=1 pyproject.toml operator/ /src/`` -> ``["pyproject.toml", "operator/"]``.
    """
    joined = re.sub(r"\\\n", " ", dockerfile)
    sources = []
    for line in joined.splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0].upper() in ("COPY", "ADD"):
            options = [word for word in words[1:] if word.startswith("--")]
            if not any(option.startswith("--from=") for option in options):
                sources += [word for word in words[1:-1] if not word.startswith("--")]
    return sources


def inputs_hash(root: Path, dockerfile: Path, *, base: str) -> str:
    """16 hex digits over a Dockerfile, the files it copies from ``root``, and the hash of its base image."""
    text = dockerfile.read_text()
    seen = hashlib.sha256(f"{base}\n{text}".encode())
    ignored = _ignored(root)
    for source in copied(text):
        for file in sorted(_files(root / source)):
            name = file.relative_to(root)
            if not any(_matches(PurePosixPath(name), pattern) for pattern in ignored):
                seen.update(f"\n{name} {file.stat().st_mode & 0o111:o}\n".encode())
                seen.update(file.read_bytes())
    return seen.hexdigest()[:16]


def _files(source: Path) -> Iterator[Path]:
    if source.is_dir():
        yield from (file for file in source.rglob("*") if file.is_file())
    elif source.exists():
        yield source
    else:
        yield from source.parent.glob(source.name)


def _ignored(root: Path) -> list[str]:
    file = root / ".dockerignore"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _matches(name: PurePosixPath, pattern: str) -> bool:
    """Whether a pattern of .dockerignore leaves out a file or a folder above it."""
    anywhere = pattern.removeprefix("**/")
    for part in (name, *name.parents):
        if fnmatch(str(part), pattern) or (anywhere != pattern and fnmatch(part.name, anywhere)):
            return True
    return False
