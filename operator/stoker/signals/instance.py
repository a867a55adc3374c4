"""What the instances say of themselves: revision, weights, stage, capacity.

A revision takes over only when an instance of it has said that it serves that very revision, and
that cannot be read from the pod object. So the operator asks `/state` on the probe port, but only
where the answer is not known yet: a pod whose present engine container has said that it is ready, and
that it has measured all it can, is not asked again until that container is another one.

Asking never holds up a reconcile: `known` answers from memory, `refresh` asks in the background,
and an answer that is new puts the service into the queue like any other change. A pod that cannot
be reached (no network to it, not started) is simply absent.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import aiohttp

from stoker.api.names import ENGINE_CONTAINER, PROBE_PORT
from stoker.core.model import InstanceReport, JsonObject, MeasuredCapacity

_TIMEOUT_S = 2.0
_AT_ONCE = 32
"""Questions under way at a time, over all services."""
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_LARGEST = 2**63
"""No count of bytes or tokens is larger, and nothing of ours would take it."""

_log = logging.getLogger(__name__)

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(slots=True)
class _Entry:
    """What is known about one pod."""

    run: tuple[str, bool]
    """Which run of the engine container this is about, and whether Kubernetes calls the pod ready."""
    report: InstanceReport | None = None
    final: bool = False
    """Whether the report holds for as long as the engine runs."""
    asked: int = 0
    """Answers that were missing or not final, in a row."""
    ask_again_s: float = 0.0
    """When to ask next, on the monotonic clock."""
    question: asyncio.Task[None] | None = None


class InstanceReports(Generic[KeyT]):
    """Reports of all instances, by the key of their service and the uid of their pod."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        on_change: Callable[[KeyT], None],
        clock: Callable[[], float],
        port: int = PROBE_PORT,
    ) -> None:
        self._session = session
        self._on_change = on_change
        self._clock = clock
        self._port = port
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._entries: dict[KeyT, dict[str, _Entry]] = {}

    def known(self, key: KeyT, pods: Iterable[JsonObject]) -> Mapping[str, InstanceReport]:
        """The last report of each of these pods, by pod name."""
        entries = self._entries.get(key, {})
        return {
            pod["metadata"]["name"]: entry.report
            for pod in pods
            if (entry := entries.get(pod["metadata"]["uid"]))
            and entry.report
            and entry.run[0] == _engine_run(pod)
        }

    def refresh(self, key: KeyT, pods: Iterable[JsonObject]) -> float | None:
        """Ask what is due among these pods; the seconds until more is due, None if nothing will be.

        Pods of the service that are not among them are forgotten.
        """
        old = self._entries.pop(key, {})
        entries: dict[str, _Entry] = {}
        due_s: list[float] = []
        for pod in pods:
            run = _engine_run(pod)
            if run is None:
                continue
            uid = pod["metadata"]["uid"]
            entry = old.pop(uid, None)
            if entry is None or entry.run != (run, _is_ready(pod)):
                entry = self._renewed(entry, run=run, ready=_is_ready(pod))
            entries[uid] = entry
            if entry.final:
                continue
            if entry.question is None and entry.ask_again_s <= self._clock():
                entry.question = asyncio.create_task(self._ask(key, pod, entry))
            due_s.append(max(entry.ask_again_s - self._clock(), _FIRST_PAUSE_S))
        for gone in old.values():
            _cancel(gone)
        if entries:
            self._entries[key] = entries
        return min(due_s, default=None)

    def forget(self, key: KeyT) -> None:
        """Drop a service that is gone."""
        for entry in self._entries.pop(key, {}).values():
            _cancel(entry)

    def close(self) -> None:
        """Stop asking."""
        for key in list(self._entries):
            self.forget(key)

    def _renewed(self, old: _Entry | None, *, run: str, ready: bool) -> _Entry:
        """An entry to be asked at once; it keeps what the same run of the engine said before."""
        if old is not None:
            _cancel(old)
        if old is None or old.run[0] != run:
            return _Entry(run=(run, ready))
        return _Entry(run=(run, ready), report=old.report, final=old.final)

    async def _ask(self, key: KeyT, pod: JsonObject, entry: _Entry) -> None:
        async with self._at_once:
            state = await self._state_of(pod)
        entry.question = None
        pause_s = min(_FIRST_PAUSE_S * 2.0**entry.asked, _LONGEST_PAUSE_S)
        entry.asked = min(entry.asked + 1, 16)
        entry.ask_again_s = self._clock() + pause_s
        if state is None:
            return
        report, measuring = state
        entry.final = report.ready and not measuring
        if report != entry.report:
            entry.report = report
            self._on_change(key)

    async def _state_of(self, pod: JsonObject) -> tuple[InstanceReport, bool] | None:
        """What the instance says, and whether it says that it will soon know more."""
        host = pod["status"]["podIP"]
        url = f"http://{f'[{host}]' if ':' in host else host}:{self._port}/state"
        try:
            async with self._session.get(url, timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S)) as answer:
                answer.raise_for_status()
                state = await answer.json()
                return _report(state), bool(state.get("measuring"))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError, TypeError) as error:
            _log.debug("an instance did not say its state", extra={"url": url, "error": repr(error)})
            return None


def _report(state: JsonObject) -> InstanceReport:
    return InstanceReport(
        ready=bool(state["ready"]),
        revision=str(state["revision"]),
        # Not known before the weights are there.
        model_version=str(state["modelVersion"] or ""),
        weights_digest=str(state["weightsDigest"] or ""),
        stage=str(state["stage"]),
        in_flight=int(state["inFlight"]),
        capacity=_capacity(state),
    )


def _capacity(state: JsonObject) -> MeasuredCapacity | None:
    """What the engine measured; whatever is missing or not a number from 0 on is None.

    An instance of an older image says less, and must still be taken over.
    """
    said, engine = state.get("capacity"), state.get("engine")
    if not isinstance(said, dict):
        return None
    return MeasuredCapacity(
        kv_cache_tokens=_whole(said.get("kvCacheTokens")),
        blocks=_whole(said.get("blocks")),
        block_size=_whole(said.get("blockSize")),
        max_concurrency=_number(said.get("maxConcurrency")),
        max_model_len=_whole(said.get("maxModelLen")),
        kv_bytes=_whole(said.get("kvBytes")),
        weights_bytes=_whole(said.get("weightsBytes")),
        visible_bytes=_whole(said.get("visibleBytes")),
        engine_version=str(engine.get("version") or "") if isinstance(engine, dict) else "",
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LARGEST:
        return None
    return float(value)


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _engine_run(pod: JsonObject) -> str | None:
    """Which run of the engine container is going on; None if none is or it has no address."""
    status = pod.get("status", {})
    if not status.get("podIP") or "deletionTimestamp" in pod["metadata"]:
        return None
    for container in status.get("containerStatuses", ()):
        if container["name"] == ENGINE_CONTAINER and "running" in container.get("state", {}):
            return str(container.get("containerID") or container["restartCount"])
    return None


def _is_ready(pod: JsonObject) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _cancel(entry: _Entry) -> None:
    if entry.question is not None:
        entry.question.cancel()
