"""Which requests the engine works on in the next step, as vLLM's scheduler would choose them.

Continuous batching: requests that run come first, those that wait follow in order of arrival while
there is a place (`max_num_seqs`), room in the step (`max_num_batched_tokens`, so a long prompt is
computed in chunks) and free blocks of KV cache. When a running request finds no block, the one that
started last gives all of its blocks back and starts again from the head of the queue.

It knows no clock. The caller passes the time in, waits as long as a `Step` says, and hands the step
back; the server does so in real time, tests and simulations in virtual time.

Rejected: prefix caching (outputs would depend on what was asked before), one timer for each stream
(cannot show how requests slow each other down).
"""

from collections import deque
from dataclasses import dataclass

from e2e.stand_in_engine.timing import BLOCK_TOKENS, StepTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What bounds a step and the number of requests in it."""

    max_num_seqs: int
    max_num_batched_tokens: int
    blocks: int
    """Blocks of KV cache; vLLM keeps one of them for itself."""

    @property
    def usable_blocks(self) -> int:
        """Blocks that requests can have."""
        return self.blocks - 1


@dataclass(slots=True, kw_only=True, eq=False)
class Request:
    """One sequence to generate, and how far it is."""

    prompt_tokens: int
    output_tokens: int
    """Tokens it makes before it ends."""
    arrived_s: float
    made: int = 0
    """Output tokens made so far."""
    computed: int = 0
    """Tokens whose KV cache is there."""
    blocks: int = 0
    preemptions: int = 0
    scheduled_s: float | None = None
    """When it first became part of a step."""
    first_token_s: float | None = None
    last_token_s: float | None = None
    aborted: bool = False

    @property
    def finished(self) -> bool:
        """Whether it has made all of its tokens."""
        return self.made >= self.output_tokens

    @property
    def tokens_to_compute(self) -> int:
        """Tokens that are known but not in the KV cache: a prompt, or the token made last."""
        return self.prompt_tokens + self.made - self.computed


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A batch to compute; `Scheduler.finish_step` takes it back after `duration_s`."""

    work: tuple[tuple[Request, int], ...]
    """Each request of the batch with the tokens computed for it."""
    duration_s: float
    preempted: int
    """Requests that lost their blocks while this step was put together."""

    @property
    def tokens(self) -> int:
        """Tokens computed in the step."""
        return sum(tokens for _, tokens in self.work)


class Scheduler:
    """The queue, the running batch and the blocks of one engine."""

    def __init__(self, *, limits: Limits, timing: StepTiming) -> None:
        self.limits = limits
        self.timing = timing
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.free_blocks = limits.usable_blocks

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self.running and not self.waiting

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache in use, 0 to 1."""
        return 1 - self.free_blocks / self.limits.usable_blocks

    def fits(self, tokens: int) -> bool:
        """Whether a request of this many tokens could ever run, alone."""
        return _blocks_for(tokens) <= self.limits.usable_blocks

    def add(self, request: Request) -> None:
        """Queue a request.

        Raises `ValueError` if it needs more KV cache than there is: it would wait for ever.
        """
        tokens = request.prompt_tokens + request.output_tokens
        if not self.fits(tokens):
            raise ValueError(
                f"a request of {tokens} tokens needs {_blocks_for(tokens)} blocks of KV cache, "
                f"and there are {self.limits.usable_blocks}"
            )
        self.waiting.append(request)

    def abort(self, request: Request) -> None:
        """Take a request out, wherever it is. One that has ended already is left alone."""
        request.aborted = True
        if request in self.running:
            self.running.remove(request)
            self._release(request)
        elif request in self.waiting:
            self.waiting.remove(request)

    def start_step(self, *, now_s: float) -> Step | None:
        """Choose the next batch; None if nothing can be computed."""
        budget = self.limits.max_num_batched_tokens
        work: list[tuple[Request, int]] = []
        preempted = 0
        for request in tuple(self.running):
            if budget == 0:
                break
            if request.blocks == 0:
                continue  # was preempted a moment ago
            tokens = min(request.tokens_to_compute, budget)
            preempted += self._make_room(request, tokens)
            if request.blocks == 0:
                break  # it was the last one, and gave way itself
            work.append((request, tokens))
            budget -= tokens
        if preempted == 0:
            work += self._admit(budget, now_s)
        if not work:
            return None
        return Step(work=tuple(work), duration_s=self._duration_s(work), preempted=preempted)

    def finish_step(self, step: Step, *, now_s: float) -> list[Request]:
        """Count what a step computed; the requests that made one token each, in batch order.

        Those that are finished have left the batch and given back their blocks.
        """
        made_a_token = []
        for request, tokens in step.work:
            if request.aborted:
                continue
            request.computed += tokens
            if request.tokens_to_compute > 0:
                continue
            request.made += 1
            if request.first_token_s is None:
                request.first_token_s = now_s
            request.last_token_s = now_s
            made_a_token.append(request)
        for request in made_a_token:
            if request.finished:
                self._release(request)
        self.running = [request for request in self.running if not request.finished]
        return made_a_token

    def _admit(self, budget: int, now_s: float) -> list[tuple[Request, int]]:
        """Start requests from the head of the queue while they fit."""
        work = []
        while self.waiting and budget > 0 and len(self.running) < self.limits.max_num_seqs:
            request = self.waiting[0]
            tokens = min(request.tokens_to_compute, budget)
            if not self._allocate(request, tokens):
                break
            self.waiting.popleft()
            self.running.append(request)
            if request.scheduled_s is None:
                request.scheduled_s = now_s
            work.append((request, tokens))
            budget -= tokens
        return work

    def _make_room(self, request: Request, tokens: int) -> int:
        """Get blocks for `tokens` more of a running request; how many requests had to give way."""
        preempted = 0
        while not self._allocate(request, tokens):
            victim = self.running.pop()
            self._release(victim)
            victim.computed = 0
            victim.preemptions += 1
            self.waiting.appendleft(victim)
            preempted += 1
            if victim is request:
                break
        return preempted

    def _allocate(self, request: Request, tokens: int) -> bool:
        needed = _blocks_for(request.computed + tokens) - request.blocks
        if needed > self.free_blocks:
            return False
        self.free_blocks -= needed
        request.blocks += needed
        return True

    def _release(self, request: Request) -> None:
        self.free_blocks += request.blocks
        request.blocks = 0

    def _duration_s(self, work: list[tuple[Request, int]]) -> float:
        decoding = [request for request, _ in work if request.made > 0 and request.tokens_to_compute == 1]
        return self.timing.step_s(
            prefill_tokens=sum(tokens for _, tokens in work) - len(decoding),
            decode_sequences=len(decoding),
            kv_tokens=sum(request.computed for request in decoding),
        )


def _blocks_for(tokens: int) -> int:
    return -(-tokens // BLOCK_TOKENS)
