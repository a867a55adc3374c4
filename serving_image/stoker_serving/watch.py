"""Follows the engine through its start, then looks for signs of life for as long as it serves."""

import asyncio
import contextlib
import logging
import time

from stoker_serving.capacity import cache_config_of
from stoker_serving.devices import accelerator_bytes, node_bytes
from stoker_serving.engine_log import EngineLog
from stoker_serving.instance import Instance
from stoker_serving.liveness import Look, counters_of
from stoker_serving.loopback import Engine
from stoker_serving.reaper import Reaper
from stoker_serving.stages import Stage
from stoker_serving.warm_up import NotWarm, warm_up

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_START_LOOK_EVERY_S = 0.25
_IDLE_LOOKS = 10
"""An engine without requests is asked at every tenth look only: each question is a line in its log."""
_ANSWER_TIMEOUT_S = 5.0


class Watch:
    """Moves the instance from `Starting` to `Serving` and feeds its liveness."""

    def __init__(self, instance: Instance, engine: Engine, *, names: tuple[str, ...], reaper: Reaper) -> None:
        self._instance = instance
        self._engine = engine
        self._names = names
        self._reaper = reaper
        self._token_ns = 0
        self._idle_looks = 0
        self._answers = True

    async def run(self, engine_log: EngineLog) -> None:
        """Runs until cancelled."""
        while not await self._healthy():
            self._instance.enter(engine_log.stage)
            await asyncio.sleep(_START_LOOK_EVERY_S)
        self._instance.enter(Stage.WARMING_UP)
        while self._instance.served is None:
            try:
                self._instance.served = await warm_up(self._engine, self._names)
            except (NotWarm, OSError) as error:
                self._wait_for(str(error) or "the engine does not answer")
                await asyncio.sleep(_LOOK_EVERY_S)
        self._wait_for("")
        await self._ask_version()
        await self._ask_cache()
        self._instance.measuring = True
        self._instance.enter(Stage.SERVING)
        measuring = asyncio.create_task(self._measure(engine_log))
        try:
            while True:
                await asyncio.sleep(_LOOK_EVERY_S)
                await self._look()
        finally:
            measuring.cancel()

    async def _healthy(self) -> bool:
        with contextlib.suppress(OSError):
            return (await self._engine.get("/health", timeout_s=_ANSWER_TIMEOUT_S)).status == 200
        return False

    async def _ask_version(self) -> None:
        with contextlib.suppress(OSError):
            document = (await self._engine.get("/version", timeout_s=_ANSWER_TIMEOUT_S)).json()
            if isinstance(document, dict):
                self._instance.engine_version = str(document.get("version", ""))

    async def _ask_cache(self) -> None:
        """Asked once, as the labels never change; before it serves, so that who sees it ready sees them."""
        with contextlib.suppress(OSError):
            page = await self._engine.get("/metrics", timeout_s=_ANSWER_TIMEOUT_S)
            self._instance.cache = cache_config_of(page.body.decode(errors="replace"))

    async def _measure(self, engine_log: EngineLog) -> None:
        """The one reading that takes longer than an instance may be kept from serving."""
        try:
            if engine_log.memory_node is not None:
                self._instance.visible_bytes = node_bytes(engine_log.memory_node)
            else:
                self._instance.visible_bytes = await accelerator_bytes(self._reaper)
        except OSError as error:
            log.warning("the memory of the devices can't be read: %s", error)
        finally:
            self._instance.measuring = False

    def _wait_for(self, what: str) -> None:
        if what and what != self._instance.waiting_for:
            log.warning("not ready: %s", what)
        self._instance.waiting_for = what

    async def _look(self) -> None:
        """One look for the liveness; the engine is asked only what shared memory does not tell."""
        shared, liveness = self._instance.shared, self._instance.liveness
        was_stuck = liveness.stuck
        in_flight, token_ns = shared.in_flight, shared.last_token_ns
        counters = None
        if in_flight == 0:
            self._answers = await self._answers_when_idle()
        elif token_ns == self._token_ns:
            counters = await self._counters()
        self._token_ns = token_ns
        liveness.look(
            Look(
                at_s=time.monotonic(),
                in_flight=in_flight,
                last_token_s=token_ns / 1e9,
                counters=counters,
                answers=self._answers,
            )
        )
        if liveness.stuck and not was_stuck:
            log.error("%s", self._instance.stuck().message)

    async def _answers_when_idle(self) -> bool:
        self._idle_looks += 1
        if self._answers and self._idle_looks % _IDLE_LOOKS:
            return True
        with contextlib.suppress(OSError):
            await self._engine.get("/health", timeout_s=_ANSWER_TIMEOUT_S)
            return True
        return False

    async def _counters(self) -> tuple[str, ...] | None:
        with contextlib.suppress(OSError):
            page = await self._engine.get("/metrics", timeout_s=_ANSWER_TIMEOUT_S)
            return counters_of(page.body.decode(errors="replace"))
        return None
