"""Which requests were there, one line for each?

JSON lines with what the record says: who, what, where, how long, how many tokens, how it ended;
never a prompt, an answer, a header or a key. Off unless asked for.

A disk or a pipe that does not keep up must not stall the streams. So lines are gathered, and a
thread writes them; what does not fit into 8 MB of waiting lines is lost and counted. Rejected: the
logging module (a lock and a write for each line, on the event loop); waiting for the disk.
"""

import asyncio
import json
import os
import queue
import threading
import time
from datetime import UTC, datetime
from typing import Final

from stoker.gateway.outcome import RequestRecord
from stoker.gateway.traces import parse_traceparent

STANDARD_OUTPUT: Final = "-"
_EVERY_S = 0.25
_MOST_WAITING_BYTES = 8 * 1000 * 1000
_LONGEST_NAME = 200
"""Characters of the model's name, which the client writes."""
_encode = json.JSONEncoder(separators=(",", ":")).encode


class AccessLog:
    """Writes a line for each request; begin and end it inside the event loop."""

    def __init__(self, path: str, *, most_waiting_bytes: int = _MOST_WAITING_BYTES) -> None:
        """`path` is appended to; `-` is the standard output. OSError if it can't be opened."""
        self._most_waiting = most_waiting_bytes
        self._loop = asyncio.get_running_loop()
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._accepted_bytes = 0
        # Each of these two is changed by one side only, the loop or the thread, so they need no lock.
        self._done_bytes = 0
        self._lost_by_writer = 0
        self._lost_by_loop = 0
        self._batches: queue.SimpleQueue[list[bytes] | None] = queue.SimpleQueue()
        self._file = (
            1 if path == STANDARD_OUTPUT else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        )
        self._closes_file = path != STANDARD_OUTPUT
        # Not waited for at exit: its disk may hang.
        self._thread = threading.Thread(target=self._write_batches, name="access log", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Lines that were not written."""
        return self._lost_by_loop + self._lost_by_writer

    @property
    def waiting_bytes(self) -> int:
        """Lines that are still to be written."""
        return self._accepted_bytes - self._done_bytes

    def add(self, record: RequestRecord) -> None:
        """A request is over."""
        if self.waiting_bytes >= self._most_waiting:
            self._lost_by_loop += 1
            return
        line = line_of(record, now_s=time.time())
        self._accepted_bytes += len(line)
        self._lines.append(line)
        if self._timer is None:
            self._timer = self._loop.call_later(_EVERY_S, self._hand_over)

    def close(self, within_s: float) -> None:
        """Write what is left, for as long as this takes at most."""
        self._hand_over()
        self._batches.put(None)
        self._thread.join(within_s)

    def _hand_over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lines:
            self._batches.put(self._lines)
            self._lines = []

    def _write_batches(self) -> None:
        while (lines := self._batches.get()) is not None:
            data = b"".join(lines)
            left = memoryview(data)
            try:
                while left:
                    left = left[os.write(self._file, left) :]
            except OSError:
                # A full disk or a reader that left; the next batch may fare better.
                self._lost_by_writer += bytes(left).count(b"\n")
            self._done_bytes += len(data)
        if self._closes_file:
            os.close(self._file)


def line_of(record: RequestRecord, *, now_s: float) -> bytes:
    """The line of a request that ended now, on the clock of the wall."""
    arrival = datetime.fromtimestamp(now_s - record.duration_s, UTC)
    trace = record.span or parse_traceparent(record.traceparent)
    fields = {
        "time": arrival.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "request_id": record.request_id,
        "trace_id": trace.trace_id if trace is not None else "",
        "namespace": record.namespace,
        "service": record.service,
        "workload": record.workload,
        "model": record.model[:_LONGEST_NAME],
        "adapter": record.adapter,
        "model_version": record.model_version,
        "revision": record.revision,
        "instance": record.instance,
        "path": record.path[:_LONGEST_NAME],
        "streaming": record.streaming,
        "status": record.status,
        "outcome": record.outcome,
        "code": record.code,
        "prompt_tokens": record.prompt_tokens,
        "cached_tokens": record.cached_tokens,
        "completion_tokens": record.completion_tokens,
        "estimated": record.estimated,
        "queue_s": round(record.queue_s, 6),
        "first_byte_s": _rounded(record.first_byte_s),
        "inter_token_s": _rounded(record.inter_token_s),
        "duration_s": round(record.duration_s, 6),
        "retries": record.retries,
        "request_bytes": record.request_bytes,
        "response_bytes": record.response_bytes,
    }
    return _encode(fields).encode() + b"\n"


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
