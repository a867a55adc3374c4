"""Does this request start now, wait, or go away?

One bounded queue for each service, in length and in time; `waiting.py` says in which order, and
`shedding.py` who would wait in vain. A request that an instance failed before its first byte goes to
the front and keeps its deadline.

Fairness holds at the bound too: when the queue is full, the newest request of the lowest priority,
there of the workload with the most waiting, makes place for one of a higher priority or of a
workload with fewer. Otherwise whoever floods the queue would leave no place to take turns for.

Where no instance is there, requests wait only for one that is expected within the bound on the
wait; else the client is told at once when to come back. Nothing here waits, reads a clock or knows
sockets: the data path calls `offer`, `leave`, `requeue`, `finished`, `pump` and `expire`.

Rejected: one task for each waiter (costs more than the decision); preempting what already runs.
"""

from collections.abc import Callable

from stoker.gateway.errors import Code, Rejection
from stoker.gateway.retry_after import DrainRate, QueueState, retry_after_s, until_instance_s
from stoker.gateway.routing import Router
from stoker.gateway.shedding import Pace, Shedding
from stoker.gateway.waiting import Waiter, Waiting

_LOOK_AGAIN_S = 0.1
"""How soon waiters are looked at again while a new or ejected instance may make room by time alone."""
_WAKE_AGAIN_S = 30.0
"""A service at zero that still has no instance after this long is woken again: the signal got lost."""


class ServiceQueue:
    """The requests of one service that wait in this gateway replica."""

    __slots__ = (
        "_again",
        "_draining",
        "_draw",
        "_on_wake",
        "_pace",
        "_pumping",
        "_rate",
        "_router",
        "_shedding",
        "_waiting",
        "_woken_s",
        "context_length",
        "max_requests",
        "max_tokens",
        "max_wait_s",
        "name",
        "next_instance_at_s",
        "starting",
        "zero",
    )

    def __init__(
        self, *, name: str, router: Router, draw: Callable[[], float], on_wake: Callable[[], None]
    ) -> None:
        """`name` is for messages; `on_wake` is called when a request waits for a service at zero."""
        self.name = name
        self.max_requests = 0
        """Requests that may wait, this replica's share; 0 means that none does."""
        self.max_tokens: int | None = None
        """Tokens of all that wait, where requests say theirs; None if there is no bound."""
        self.context_length: int | None = None
        """Tokens that one request takes at most, whatever it asks for; None if not known."""
        self.max_wait_s = 0.0
        self.next_instance_at_s: float | None = None
        """When the next instance should be Ready, on the monotonic clock; None if not known."""
        self.starting = False
        """Whether an instance is starting."""
        self.zero = False
        """Whether the service has no instances because nobody asks, so that asking wakes it."""
        self._router = router
        self._draw = draw
        self._on_wake = on_wake
        self._woken_s = float("-inf")
        self._waiting = Waiting()
        self._rate = DrainRate()
        self._pace = Pace(router.slots)
        self._shedding = Shedding()
        self._draining = False
        self._pumping = False
        self._again = False

    @property
    def queued(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    @property
    def queued_tokens(self) -> int:
        """Tokens of those that wait, as far as they are known."""
        return self._waiting.tokens

    def oldest_wait_s(self, now_s: float) -> float:
        """How long the first of those that wait has been waiting; 0 if none waits."""
        since_s = self._waiting.oldest_since_s()
        return 0.0 if since_s is None else now_s - since_s

    def finished_per_s(self, now_s: float) -> float:
        """Requests that left the instances per second, lately."""
        return self._rate.per_s(now_s)

    def offer(self, waiter: Waiter, now_s: float) -> None:
        """A request came: it is started, refused, or waits, before this returns."""
        if self._draining:
            waiter.refuse(self._rejection(Code.DRAINING, now_s))
            return
        waiter.deadline_s = now_s + self.max_wait_s
        if not self._waiting:
            instance = self._router.choose(waiter, now_s)
            if instance is not None:
                waiter.start(instance)
                return
        if not self._router.instances:
            self._wake(now_s)
            if self.max_requests == 0 or not self._expects_within(now_s, self.max_wait_s):
                waiter.refuse(self._rejection(Code.NO_INSTANCE, now_s))
                return
        if self._would_wait_in_vain(waiter, now_s):
            waiter.refuse(self._rejection(Code.QUEUE_TOO_SLOW, now_s))
            return
        if self.context_length is not None:
            waiter.tokens = min(waiter.tokens, self.context_length)
        if not self._make_place(waiter, now_s):
            waiter.refuse(self._rejection(Code.QUEUE_FULL, now_s))
            return
        self._waiting.add(waiter, now_s)
        self.pump(now_s)

    def requeue(self, waiter: Waiter, now_s: float) -> bool:
        """An instance failed a request before its first byte: have another one take it.

        False if no other can be expected to take it in time: the caller then answers the client.
        """
        instance = self._router.choose(waiter, now_s)
        if instance is not None:
            waiter.start(instance)
            return True
        left_s = waiter.deadline_s - now_s
        elsewhere = self._router.could_go_elsewhere(waiter.excluded)
        if self.max_requests == 0 or left_s <= 0 or not (elsewhere or self._expects_within(now_s, left_s)):
            return False
        self._waiting.add_retry(waiter, now_s)
        return True

    def leave(self, waiter: Waiter) -> bool:
        """The client is gone; False if the request does not wait here."""
        if waiter not in self._waiting:
            return False
        self._waiting.remove(waiter)
        return True

    def finished(self, now_s: float) -> None:
        """A request left its instance, after `release`: the slot is for the next."""
        self._rate.finished(now_s)
        if self._waiting:
            self._pace.left(now_s)
            self.pump(now_s)
        else:
            self._pace.forget()

    def pump(self, now_s: float) -> None:
        """Start all that fit; to be called when instances, weights or bounds have changed."""
        if self._router.instances:
            self._woken_s = float("-inf")
        self._again = True
        if self._pumping:
            # Called by a waiter that was just started or refused: the outer call goes on.
            return
        self._pumping = True
        try:
            while self._again and self._waiting:
                self._again = False
                self._start_what_fits(now_s)
        finally:
            self._pumping = False

    def expire(self, now_s: float) -> float | None:
        """Refuse those whose wait is over; seconds after which to call this again, None if none waits."""
        self.pump(now_s)
        while (waiter := self._waiting.next_over(now_s)) is not None:
            code = Code.QUEUE_TIMEOUT if self._router.instances else Code.NO_INSTANCE
            self._refuse(waiter, self._rejection(code, now_s))
        deadline_s = self._waiting.next_deadline_s()
        if deadline_s is None:
            return None
        next_s = deadline_s - now_s
        return next_s if self._router.settled(now_s) else min(next_s, _LOOK_AGAIN_S)

    def drain(self) -> None:
        """Take no new requests; those that wait may still start."""
        self._draining = True

    def refuse_all(self, rejection: Rejection) -> None:
        """Refuse all that wait."""
        for waiter in list(self._waiting):
            # One that is refused may make another one leave.
            if waiter in self._waiting:
                self._refuse(waiter, rejection)

    def _start_what_fits(self, now_s: float) -> None:
        if not self._router.instances and not self._expects_within(now_s, float("inf")):
            self.refuse_all(self._rejection(Code.NO_INSTANCE, now_s))
            return
        for level in self._waiting.levels():
            # A retry may wait for another instance than the one with room, so it holds up nobody.
            for waiter in list(level.retries):
                if waiter in level.retries:
                    self._start_if_fits(waiter, now_s)
            while (first := level.first()) is not None:
                if not self._start_if_fits(first, now_s):
                    return

    def _start_if_fits(self, waiter: Waiter, now_s: float) -> bool:
        instance = self._router.choose(waiter, now_s)
        if instance is None:
            return False
        self._waiting.take(waiter)
        waiter.start(instance)
        return True

    def _would_wait_in_vain(self, waiter: Waiter, now_s: float) -> bool:
        """Whether it cannot start in time, by all that is known; not while an instance is to come."""
        each_s = self._pace.each_s(now_s)
        if each_s is None or self._expects_within(now_s, self.max_wait_s) or self._router.has_room(now_s):
            return False
        return self._shedding.refuses(
            ahead=self._waiting.ahead_of(waiter),
            past_half=self._waiting.past_half(waiter.priority, now_s),
            queued=len(self._waiting),
            each_s=each_s,
            max_wait_s=self.max_wait_s,
        )

    def _make_place(self, waiter: Waiter, now_s: float) -> bool:
        """Whether the waiter may wait, if need be in the place of another that is refused for it."""
        if self.max_requests == 0 or self.max_wait_s <= 0:
            return False
        while self._is_full_for(waiter):
            last = self._waiting.least_deserving(waiter)
            if last is None:
                return False
            self._refuse(last, self._rejection(Code.QUEUE_FULL, now_s))
        return True

    def _is_full_for(self, waiter: Waiter) -> bool:
        if len(self._waiting) >= self.max_requests:
            return True
        # One that is too large alone may still wait alone.
        tokens = self._waiting.tokens
        return self.max_tokens is not None and tokens > 0 and tokens + waiter.tokens > self.max_tokens

    def _refuse(self, waiter: Waiter, rejection: Rejection) -> None:
        self._waiting.remove(waiter)
        waiter.refuse(rejection)

    def _wake(self, now_s: float) -> None:
        if self.zero and now_s - self._woken_s >= _WAKE_AGAIN_S:
            self._woken_s = now_s
            self._on_wake()

    def _expects_within(self, now_s: float, wait_s: float) -> bool:
        """Whether an instance should be there in time: one that starts, or one that is being woken."""
        if not (self.starting or self.zero):
            return False
        return self.next_instance_at_s is None or self.next_instance_at_s - now_s <= wait_s

    def retry_after_s(self, now_s: float) -> float:
        """When whoever is refused now should come back, while there are instances."""
        state = QueueState(
            queued=len(self._waiting),
            finished_per_s=self._rate.per_s(now_s),
            next_instance_s=self._next_instance_s(now_s),
            max_wait_s=self.max_wait_s,
        )
        return retry_after_s(state, spread=self._draw())

    def _rejection(self, code: Code, now_s: float) -> Rejection:
        """Why this service does not serve a request now, and when to come back."""
        next_s = self._next_instance_s(now_s)
        if code is Code.NO_INSTANCE:
            wait_s = until_instance_s(next_s, spread=self._draw())
        else:
            wait_s = self.retry_after_s(now_s)
        return Rejection(code=code, message=self._message(code, next_s), retry_after_s=wait_s)

    def _next_instance_s(self, now_s: float) -> float | None:
        return None if self.next_instance_at_s is None else max(0.0, self.next_instance_at_s - now_s)

    def _message(self, code: Code, next_instance_s: float | None) -> str:
        if code is Code.NO_INSTANCE:
            if next_instance_s is not None:
                return f"{self.name} has no instance now; the next is expected in {next_instance_s:.0f} s."
            return f"{self.name} has no instance now, and it is not known when the next one is there."
        if code is Code.QUEUE_TIMEOUT:
            return f"No instance of {self.name} became free within {self.max_wait_s:g} s."
        if code is Code.DRAINING:
            return "This gateway replica is shutting down; send the request again."
        if code is Code.QUEUE_TOO_SLOW:
            return (
                f"More requests wait for {self.name} before this one than can start within "
                f"{self.max_wait_s:g} s; send it again later."
            )
        if self.max_requests == 0:
            return f"All instances of {self.name} are busy, and its queue may hold no requests."
        queued = len(self._waiting)
        tokens = "" if queued >= self.max_requests else f" for {self._waiting.tokens} tokens"
        return f"The queue of {self.name} is full: {queued} requests{tokens} wait."
