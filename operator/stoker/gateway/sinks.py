"""Who is told of each request that is over?

The accounts always; the access log and the span export where they are asked for. All of them take a
record in microseconds and do the rest elsewhere.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING

from stoker.gateway.access_log import AccessLog
from stoker.gateway.accounting import Accounting
from stoker.gateway.metric_families import LOG_LOST, SPANS, SPANS_LOST, Family
from stoker.gateway.outcome import RequestRecord
from stoker.gateway.settings import Settings
from stoker.kube.errors import FatalError

if TYPE_CHECKING:
    from stoker.gateway.span_export import SpanExport

_LAST_S = 2.0
"""Time for the last lines and spans at the end."""


class Sinks:
    """All that takes records."""

    def __init__(self, accounting: Accounting) -> None:
        self._takes: list[Callable[[RequestRecord], None]] = [accounting.add]
        self._log: AccessLog | None = None
        self._export: SpanExport | None = None

    def add(self, record: RequestRecord) -> None:
        """A request is over."""
        for take in self._takes:
            take(record)

    def counts(self) -> Mapping[Family, float]:
        """What became of the lines and spans."""
        export = self._export
        return {
            LOG_LOST: self._log.lost if self._log is not None else 0,
            SPANS: export.exported if export is not None else 0,
            SPANS_LOST: export.lost if export is not None else 0,
        }

    @contextlib.asynccontextmanager
    async def running(self, settings: Settings, *, replica: str) -> AsyncIterator[None]:
        """Open what the settings ask for, and bring out what is left at the end."""
        async with contextlib.AsyncExitStack() as stack:
            if settings.access_log:
                stack.callback(self._open_log(settings.access_log).close, _LAST_S)
            if settings.trace_endpoint:
                await stack.enter_async_context(self._exporting(settings.trace_endpoint, replica))
            yield

    def _open_log(self, path: str) -> AccessLog:
        try:
            self._log = AccessLog(path)
        except OSError as error:
            raise FatalError("opening the access log", f"{error}; choose another --access-log") from error
        self._takes.append(self._log.add)
        return self._log

    @contextlib.asynccontextmanager
    async def _exporting(self, endpoint: str, replica: str) -> AsyncIterator[None]:
        # Here, as most gateways export no spans.
        import aiohttp

        from stoker.gateway.span_export import SpanExport

        async with aiohttp.ClientSession() as session:
            export = self._export = SpanExport(session, endpoint=endpoint, replica=replica)
            self._takes.append(export.add)
            task = asyncio.create_task(export.run(), name="span export")
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(export.flush(), _LAST_S)
