"""Why an instance ended, in the words that the operator puts on the object.

Kubernetes keeps what a container writes to its termination log, at most 4096 bytes. We write one JSON
object: a class from a closed list, a sentence that says what was wrong, and one that says what to do.
"""

import enum
import json
from dataclasses import dataclass
from pathlib import Path

LIMIT_BYTES = 4096
_FIX_BYTES = 600
_MESSAGE_BYTES = 3000


class Reason(enum.StrEnum):
    """Classes of failure; the same words as `stoker.api.reasons.TerminationClass`, which this package
    can't import. A test holds the two equal."""

    WEIGHTS_MISSING = "WeightsMissing"
    WEIGHTS_FORBIDDEN = "WeightsForbidden"
    WEIGHTS_CORRUPT = "WeightsCorrupt"
    WEIGHTS_UNREACHABLE = "WeightsUnreachable"
    SOURCE_NOT_ALLOWED = "SourceNotAllowed"
    DISK_FULL = "DiskFull"
    BAD_ARGUMENTS = "BadArguments"
    OUT_OF_MEMORY = "OutOfMemory"
    ENGINE_CRASHED = "EngineCrashed"
    ENGINE_STUCK = "EngineStuck"
    MODEL_UNSUPPORTED = "ModelUnsupported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What was wrong and what to do about it."""

    reason: Reason
    message: str
    fix: str

    def to_json(self) -> str:
        """One JSON object of at most `LIMIT_BYTES`."""
        return json.dumps(
            {
                "reason": self.reason.value,
                "message": _cut(self.message, _MESSAGE_BYTES),
                "fix": _cut(self.fix, _FIX_BYTES),
            },
            ensure_ascii=False,
        )


class Fatal(Exception):
    """The instance can't serve, for the reason that the failure names."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def write(path: Path, failure: Failure) -> None:
    """Leaves the failure where the kubelet reads it; raises OSError where there is no such place."""
    path.write_text(failure.to_json())


def _cut(text: str, limit_bytes: int) -> str:
    """The start of `text` whose JSON form fits; escapes make quotes, line ends and controls longer."""
    while len(json.dumps(text, ensure_ascii=False).encode()) > limit_bytes:
        text = text[: len(text) * 9 // 10]
    return text
