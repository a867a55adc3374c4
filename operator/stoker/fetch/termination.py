"""What does a container say when it ends? One JSON object that Kubernetes puts into the pod's status.

The kubelet reads the file after the container ended and keeps at most 4096 bytes of it, so a long
message is cut here, where the object stays readable.
"""

import json
from pathlib import Path

from stoker.fetch.errors import FetchError
from stoker.fetch.manifest import Manifest

DEFAULT_PATH = Path("/dev/termination-log")
_LIMIT_BYTES = 4096


def success(manifest: Manifest, *, seconds: float) -> dict[str, object]:
    """What is said when the weights are in place."""
    return {
        "digest": manifest.digest,
        "modelVersion": manifest.model_version,
        "bytes": manifest.size_bytes,
        "files": len(manifest.files),
        "seconds": round(seconds, 1),
    }


def failure(error: FetchError) -> dict[str, object]:
    """What is said when they are not."""
    return {"reason": str(error.reason), "message": error.message, "fix": error.fix}


def write(data: dict[str, object], path: Path) -> None:
    """Write the object, with its message cut so that the whole fits."""
    text = json.dumps(data, ensure_ascii=False)
    message = str(data.get("message", ""))
    while len(text.encode()) > _LIMIT_BYTES and message:
        message = message[: len(message) * 3 // 4]
        text = json.dumps({**data, "message": f"{message}..."}, ensure_ascii=False)
    path.write_text(text)
