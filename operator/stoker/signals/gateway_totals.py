"""How do counts of many processes become counts that go on growing?

Every gateway process counts from zero and takes its count with it when it ends. Here each report of a
process adds what it has grown by since the one before, so that the sum over all processes never falls.
A process that was there before its first report was read counts from that report, as nobody knows when
the rest was; one that began later counts from zero.

A process counts a service anew when the service was away for a while; the number of the count tells
that from one that goes on, also when the address or the service comes back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from stoker.core.load import TotalKey, Totals

ServiceKey: TypeAlias = tuple[str, str]
"""Namespace and name."""

_REMEMBERED_S = 3600.0
"""Processes and services that were not heard of for so long are forgotten."""


@dataclass(slots=True)
class _Process:
    heard_s: float
    last: dict[tuple[ServiceKey, int], Totals] = field(default_factory=dict)
    """What each of its counts was at last."""


class GatewayTotals:
    """The sums over all processes that were ever heard."""

    def __init__(self, *, began_s: float) -> None:
        """`began_s` is when reading began, on the monotonic clock."""
        self._began_s = began_s
        self._processes: dict[str, _Process] = {}
        self._sums: dict[ServiceKey, dict[TotalKey, float]] = {}
        self._heard_s: dict[ServiceKey, float] = {}

    def of(self, key: ServiceKey) -> Totals:
        """The sums of a service, which only differences of mean anything."""
        return self._sums.get(key, {})

    def take(
        self,
        process: str,
        counts: Mapping[ServiceKey, tuple[int, Totals]],
        *,
        process_began_s: float,
        now_s: float,
    ) -> None:
        """A report: by service, the number of its count and the totals."""
        known = self._processes.get(process)
        from_zero = known is not None or process_began_s >= self._began_s
        if known is None:
            self._forget(now_s)
            known = self._processes[process] = _Process(heard_s=now_s)
        known.heard_s = now_s
        for key, (number, totals) in counts.items():
            before = known.last.get((key, number), {} if from_zero else totals)
            known.last[key, number] = totals
            self._heard_s[key] = now_s
            sums = self._sums.setdefault(key, {})
            for what, total in totals.items():
                grown = total - before.get(what, 0.0)
                sums[what] = sums.get(what, 0.0) + max(grown, 0.0)

    def _forget(self, now_s: float) -> None:
        for process, known in list(self._processes.items()):
            if now_s - known.heard_s > _REMEMBERED_S:
                del self._processes[process]
        for key, heard_s in list(self._heard_s.items()):
            if now_s - heard_s > _REMEMBERED_S:
                del self._heard_s[key], self._sums[key]
