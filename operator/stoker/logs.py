"""One line for each log record, for people or for machines.

Code logs a fixed sentence and puts what varies into `extra`, so that lines can be grouped. The
text form prints the extras as `key=value`, the JSON form as fields.
"""

import json
import logging
from datetime import UTC, datetime

_OURS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_KOPF = frozenset({"settings", "k8s_skip", "k8s_ref"})
"""What kopf hangs on its records for its own use."""


class Formatter(logging.Formatter):
    """Writes a record as text or as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        extras = {k: v for k, v in vars(record).items() if k not in _OURS and k not in _KOPF}
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        if self._as_json:
            line = {"time": at, "level": record.levelname, "logger": record.name}
            line |= {"message": record.getMessage(), **extras}
            return json.dumps(line | ({"trace": trace} if trace else {}), default=str)
        words = [at, f"{record.levelname:7}", record.getMessage()]
        words += [f"{key}={value}" for key, value in extras.items()]
        return " ".join(words) + (f"\n{trace}" if trace else "")


def configure(*, as_json: bool, level: str) -> None:
    """Send everything that is logged to standard error in this form."""
    handler = logging.StreamHandler()
    handler.setFormatter(Formatter(as_json=as_json))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    if level != "debug":
        # It says of every watch event that our handler for it succeeded.
        logging.getLogger("kopf").setLevel(logging.WARNING)
