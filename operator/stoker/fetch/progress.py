"""How far is it? One line every few seconds, for people who watch the log of a starting pod."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

_MIB = 1024 * 1024


def progress_line(*, done_bytes: int, total_bytes: int | None, bytes_per_s: float) -> str:
    """The line to show.

    Example: 1 GiB of 4 GiB at 512 MiB/s -> `1024.0 of 4096.0 MiB (25 %), 512.0 MiB/s, 6 s left`.
    """
    rate = f"{bytes_per_s / _MIB:.1f} MiB/s"
    if total_bytes is None:
        return f"{done_bytes / _MIB:.1f} MiB, {rate}"
    share = 100 * done_bytes // total_bytes if total_bytes else 100
    left = f"{(total_bytes - done_bytes) / bytes_per_s:.0f} s left" if bytes_per_s > 0 else "stalled"
    return f"{done_bytes / _MIB:.1f} of {total_bytes / _MIB:.1f} MiB ({share} %), {rate}, {left}"


class Progress:
    """Bytes of one fetch, added up over its files."""

    def __init__(self, *, say: Callable[[str], None], every_s: float = 5.0) -> None:
        self.say = say
        """Shows a line to the person who waits."""
        self._every_s = every_s
        self._total: int | None = None
        self._done = 0
        self._from_source = 0

    def start(self, *, total_bytes: int | None) -> None:
        """Begin at zero; the total is None where the source does not tell sizes."""
        self._total = total_bytes
        self._done = 0

    def found(self, bytes_: int) -> None:
        """Bytes that were there already, or (negative) turned out to be of no use."""
        self._done += bytes_

    def read(self, bytes_: int) -> None:
        """Bytes that were read just now."""
        self._done += bytes_
        self._from_source += bytes_

    @contextlib.asynccontextmanager
    async def reported(self, label: str) -> AsyncIterator[None]:
        """Show a line now and then, as long as the block runs."""
        reporting = asyncio.get_running_loop().create_task(self._report(label))
        try:
            yield
        finally:
            reporting.cancel()

    async def _report(self, label: str) -> None:
        before_s, before = time.monotonic(), self._from_source
        while True:
            await asyncio.sleep(self._every_s)
            now_s, now = time.monotonic(), self._from_source
            rate = (now - before) / (now_s - before_s)
            line = progress_line(done_bytes=self._done, total_bytes=self._total, bytes_per_s=rate)
            self.say(f"{label}: {line}")
            before_s, before = now_s, now
