"""Runs the scheduler in real time and hands out the tokens.

One task drives all requests: it takes a step, sleeps as long as the step lasts, and wakes the
requests that made a token. A stream costs no timer and no task of its own, so thousands are cheap.
A client that reads slowly gets several tokens at once, as from vLLM.
"""

import asyncio
from collections.abc import Awaitable, Callable

from e2e.stand_in_engine import errors
from e2e.stand_in_engine.faults import Faults
from e2e.stand_in_engine.metrics import EngineMetrics, Finished
from e2e.stand_in_engine.scheduler import Request, Scheduler, Step

_CATCH_UP_S = 0.05
"""A step that ended late shortens the next ones, but not by more than this."""


class Generation:
    """One sequence on its way: the request in the scheduler and the tokens nobody has fetched yet."""

    __slots__ = ("finish_reason", "group", "max_tokens", "request", "unread")

    def __init__(self, *, request: Request, finish_reason: str, max_tokens: int) -> None:
        self.request = request
        self.finish_reason = finish_reason
        """`stop` or `length`, once it has ended."""
        self.max_tokens = max_tokens
        self.unread = 0
        self.group: Group | None = None


class Group:
    """The sequences that answer one HTTP request, waited for together."""

    __slots__ = ("_error", "_waiter", "generations")

    def __init__(self, generations: list[Generation]) -> None:
        self.generations = generations
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        for generation in generations:
            generation.group = self

    async def next(self) -> list[tuple[int, int]]:
        """Choices with new tokens, and how many; waits for one, empty when all have ended.

        Raises what `fail` was given.
        """
        while True:
            if self._error is not None:
                raise self._error
            ready = []
            for place, generation in enumerate(self.generations):
                if generation.unread:
                    ready.append((place, generation.unread))
                    generation.unread = 0
            if ready or all(generation.request.finished for generation in self.generations):
                return ready
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def wake(self) -> None:
        """There is something new to look at."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, error: Exception) -> None:
        """End it with an error."""
        self._error = error
        self.wake()


class Engine:
    """The engine behind the server."""

    def __init__(
        self,
        *,
        scheduler: Scheduler,
        metrics: EngineMetrics,
        faults: Faults,
        max_num_queued_reqs: int | None,
        on_crash: Callable[["Engine"], Awaitable[None]],
    ) -> None:
        self._scheduler = scheduler
        self._metrics = metrics
        self._max_num_queued_reqs = max_num_queued_reqs
        self._on_crash = on_crash
        self._running: dict[Request, Generation] = {}
        self._work = asyncio.Event()
        self._faults_changed = asyncio.Event()
        self._made = 0
        self._made_before_faults = 0
        self.faults = faults
        self.died = asyncio.Event()

    @property
    def dead(self) -> bool:
        """Whether it has ended and takes nothing any more."""
        return self.died.is_set()

    @property
    def unfinished(self) -> int:
        """Requests that wait or run."""
        return len(self._running)

    def set_faults(self, faults: Faults) -> None:
        """Replace all faults; those that count tokens start to count now."""
        self.faults = faults
        self._made_before_faults = self._made
        self._faults_changed.set()

    def check_admission(self, n: int) -> None:
        """Raises `ApiError` if the engine is dead or its queue is full."""
        if self.dead:
            raise errors.engine_dead()
        limit = self._max_num_queued_reqs
        if limit is not None and self.unfinished + n > limit:
            self._metrics.count_rejection()
            raise errors.queue_full()

    def refuse(self) -> None:
        """Count a refusal on command and raise it."""
        self._metrics.count_rejection()
        raise errors.queue_full()

    def submit(self, group: Group) -> None:
        """Queue the sequences of a group."""
        for generation in group.generations:
            self._scheduler.add(generation.request)
            self._running[generation.request] = generation
        self._work.set()

    def abort(self, group: Group) -> None:
        """Take the sequences of a group out, as far as they have not ended."""
        for generation in group.generations:
            if self._running.pop(generation.request, None) is not None:
                self._scheduler.abort(generation.request)

    def die(self) -> None:
        """End every request with vLLM's error for an engine that is gone."""
        self.died.set()
        for generation in list(self._running.values()):
            assert generation.group is not None
            self.abort(generation.group)
            generation.group.fail(errors.engine_dead())

    async def crash(self) -> None:
        """End as the faults say."""
        await self._on_crash(self)

    async def run(self) -> None:
        """Take one step after the other, for ever."""
        now_s = asyncio.get_running_loop().time
        ended_s = now_s()
        while not self.dead:
            if not self._work.is_set():
                await self._work.wait()
                ended_s = now_s()
            started_s = max(ended_s, now_s() - _CATCH_UP_S)
            step = self._scheduler.start_step(now_s=now_s())
            if step is None:
                self._work.clear()
                continue
            ended_s = started_s + step.duration_s * self.faults.slow_factor
            await asyncio.sleep(ended_s - now_s())
            await self._misbehave()
            self._finish(step, now_s())

    async def _misbehave(self) -> None:
        """Stall or crash, if a fault says so."""
        while self._reached(self.faults.stall_after_tokens):
            self._faults_changed.clear()
            await self._faults_changed.wait()
        if self._reached(self.faults.crash_after_tokens):
            await self.crash()

    def _reached(self, tokens: int | None) -> bool:
        return tokens is not None and self._made - self._made_before_faults >= tokens

    def _finish(self, step: Step, now_s: float) -> None:
        before = {request: request.last_token_s for request, _ in step.work}
        made = self._scheduler.finish_step(step, now_s=now_s)
        self._made += len(made)
        first = []
        for request in made:
            last_token_s = before[request]
            if last_token_s is None:
                first.append(request)
            else:
                self._metrics.count_between_tokens(now_s - last_token_s)
            generation = self._running[request]
            generation.unread += 1
            if request.finished:
                self._end(generation, now_s)
            assert generation.group is not None
            generation.group.wake()
        self._metrics.count_step(step, first=first, made=len(made))

    def _end(self, generation: Generation, now_s: float) -> None:
        del self._running[generation.request]
        assert generation.group is not None
        self._metrics.count_finished(
            Finished(
                request=generation.request,
                reason=generation.finish_reason,
                n=len(generation.group.generations),
                max_tokens=generation.max_tokens,
                now_s=now_s,
            )
        )
