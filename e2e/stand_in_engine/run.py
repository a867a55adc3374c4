"""One request for text on its way: the sequences to generate and the bytes that answer it."""

from collections.abc import Iterator
from typing import Any

from e2e.stand_in_engine import errors
from e2e.stand_in_engine.answers import Shape
from e2e.stand_in_engine.body import Generate, Prompt
from e2e.stand_in_engine.engine import Generation, Group
from e2e.stand_in_engine.scheduler import Request
from e2e.stand_in_engine.tokens import Answer


class Run:
    """The choices of one request, prompt by prompt, `n` of each."""

    def __init__(self, request: Generate, *, shape: Shape, answers: list[Answer], group: Group) -> None:
        self._request = request
        self._shape = shape
        self._answers = answers
        self.group = group
        self._read = [0] * len(group.generations)
        self._opened = False

    def pieces(self, ready: list[tuple[int, int]]) -> Iterator[bytes]:
        """What a stream sends when these choices have so many new tokens."""
        if not self._opened:
            self._opened = True
            yield from self._opening()
        for choice, new in ready:
            start = self._read[choice]
            self._read[choice] = made = start + new
            generation = self.group.generations[choice]
            ended = made == generation.request.output_tokens
            text = self._text(choice, start, made)
            yield self._shape.piece(
                choice,
                text=self._echo(choice) + text if start == 0 else text,
                finish_reason=generation.finish_reason if ended else None,
                prompt_tokens=generation.request.prompt_tokens,
                made=made,
            )

    def closing(self) -> bytes | None:
        """What a stream sends after the last token."""
        return self._shape.closing(prompt_tokens=self._prompt_tokens, completion_tokens=sum(self._read))

    def whole(self) -> dict[str, Any]:
        """The answer in one piece, when every choice has ended."""
        generations = self.group.generations
        choices = []
        for choice, generation in enumerate(generations):
            text = self._echo(choice) + self._text(choice, 0, generation.request.made)
            choices.append((text, generation.finish_reason))
        return self._shape.whole(
            choices,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=sum(generation.request.made for generation in generations),
        )

    @property
    def _prompt_tokens(self) -> int:
        return sum(prompt.token_count for prompt in self._request.prompts)

    def _opening(self) -> Iterator[bytes]:
        for choice, generation in enumerate(self.group.generations):
            opening = self._shape.opening(choice, prompt_tokens=generation.request.prompt_tokens)
            if opening is not None:
                yield opening

    def _text(self, choice: int, start: int, stop: int) -> str:
        generation = self.group.generations[choice]
        if generation.finish_reason == "stop":
            stop = min(stop, generation.request.output_tokens - 1)  # the last one has no text
        return self._answers[choice].text(start, stop)

    def _echo(self, choice: int) -> str:
        if not self._request.echo:
            return ""
        return self._request.prompts[choice // self._request.n].content


def generation_for(
    prompt: Prompt, request: Generate, *, max_model_len: int, answer_tokens: int, now_s: float
) -> Generation:
    """The sequence that answers a prompt.

    It ends by itself after `answer_tokens` and one token without text, unless `max_tokens` or the
    context end it earlier. Raises `ApiError` if the prompt fills the context.
    """
    room = max_model_len - prompt.token_count
    wanted = room if request.max_tokens is None else min(room, request.max_tokens)
    if wanted < 1:
        raise errors.bad_value(
            f"max_tokens must be at least 1, got {wanted}.", param="max_tokens", value=wanted
        )
    stops = not request.ignore_eos and answer_tokens + 1 <= wanted
    return Generation(
        request=Request(
            prompt_tokens=prompt.token_count,
            output_tokens=answer_tokens + 1 if stops else wanted,
            arrived_s=now_s,
        ),
        finish_reason="stop" if stops else "length",
        max_tokens=wanted,
    )
