"""The endpoints of vLLM's API: those that use the model, and those that tell about it."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from e2e.stand_in_engine import answers, asgi, body, errors, tokens
from e2e.stand_in_engine.answers import Shape
from e2e.stand_in_engine.asgi import ClientLeft, Receive, Scope, Send
from e2e.stand_in_engine.body import Generate
from e2e.stand_in_engine.engine import Engine, Generation, Group
from e2e.stand_in_engine.errors import ApiError
from e2e.stand_in_engine.model_folder import Served
from e2e.stand_in_engine.run import Run, generation_for
from e2e.stand_in_engine.scheduler import Request
from e2e.stand_in_engine.tokens import Answer, WrongAnswer
from e2e.stand_in_engine.version import VERSION

_EMBEDDING_DIMENSIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """Answers for one engine and the model it serves."""

    engine: Engine
    served: Served
    answer_tokens: int
    """Tokens of an answer that ends by itself."""

    async def chat(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /v1/chat/completions`."""
        document = await _read(scope, receive)
        request = body.chat_request(document, max_model_len=self.served.max_model_len)
        await self._generate(request, scope, receive, send)

    async def completions(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /v1/completions`."""
        document = await _read(scope, receive)
        request = body.completion_request(document, max_model_len=self.served.max_model_len)
        await self._generate(request, scope, receive, send)

    async def embeddings(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /v1/embeddings` of a pooling model: one vector for each input, always the same one."""
        document = await _read(scope, receive)
        inputs = body.prompts_of(document, "input")
        if not inputs:
            raise errors.bad_body("missing", at="body.input", message="Field required", given=document)
        model = self._model(body.model_of(document))
        for each in inputs:
            body.check_length(each, max_model_len=self.served.max_model_len)
        sizes = [tokens.count(each) for each in inputs]
        self.engine.check_admission(len(inputs))
        group = Group([self._pooling(size) for size in sizes])
        async with self._running(group, receive):
            while await group.next():
                pass
        vectors = [
            {"index": place, "object": "embedding", "embedding": _vector(each)}
            for place, each in enumerate(inputs)
        ]
        request_id = asgi.header(scope, "x-request-id")
        await asgi.answer_json(
            send, answers.embeddings(vectors, model=model, request_id=request_id, prompt_tokens=sum(sizes))
        )

    async def tokenize(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /tokenize`."""
        document = await _read(scope, receive)
        self._model(body.model_of(document))
        if "messages" in document:
            text = tokens.chat_text(body.messages_of(document))
        else:
            text = str(document.get("prompt", ""))
        pieces = tokens.split(text)
        await asgi.answer_json(
            send,
            {
                "count": len(pieces),
                "max_model_len": self.served.max_model_len,
                "tokens": tokens.ids(pieces),
                "token_strs": pieces if document.get("return_token_strs") else None,
            },
        )

    async def models(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`GET /v1/models`."""
        cards = [] if self.engine.faults.no_models else self.served.cards()
        await asgi.answer_json(send, {"object": "list", "data": cards})

    async def health(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`GET /health`: empty, 503 once the engine is dead."""
        await asyncio.sleep(self.engine.faults.health_delay_s)
        await asgi.answer(send, b"", status=503 if self.engine.dead else 200)

    async def version(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`GET /version`."""
        await asgi.answer_json(send, {"version": VERSION})

    async def _generate(self, request: Generate, scope: Scope, receive: Receive, send: Send) -> None:
        model = self._model(request.model)
        self.engine.check_admission(request.n * len(request.prompts))
        shape = Shape(
            request,
            model=model,
            request_id=asgi.header(scope, "x-request-id"),
            fingerprint=self.served.fingerprint,
        )
        run = self._run(request, shape)
        if request.stream:
            await self._stream(run, receive, send)
        else:
            await self._whole(run, receive, send)

    async def _whole(self, run: Run, receive: Receive, send: Send) -> None:
        if self.engine.faults.refuse:
            self.engine.refuse()
        async with self._running(run.group, receive):
            while await run.group.next():
                pass
        await asgi.answer_json(send, run.whole())

    async def _stream(self, run: Run, receive: Receive, send: Send) -> None:
        """The head goes out at once, as vLLM's does, so a later failure can only be an event."""
        await asgi.start(send, 200, content_type=b"text/event-stream; charset=utf-8")
        try:
            if self.engine.faults.refuse:
                self.engine.refuse()
            async with self._running(run.group, receive):
                while ready := await run.group.next():
                    for piece in run.pieces(ready):
                        await asgi.send_piece(send, piece)
            if closing := run.closing():
                await asgi.send_piece(send, closing)
        except ApiError as error:
            await asgi.send_piece(send, answers.error_event(error.document))
        await asgi.send_piece(send, answers.DONE)
        await asgi.end(send)

    def _run(self, request: Generate, shape: Shape) -> Run:
        now_s = asyncio.get_running_loop().time()
        generations, texts = [], []
        for prompt in request.prompts:
            answer = WrongAnswer() if self.engine.faults.wrong_content else Answer(prompt.content)
            for _ in range(request.n):
                texts.append(answer)
                generations.append(
                    generation_for(
                        prompt,
                        request,
                        max_model_len=self.served.max_model_len,
                        answer_tokens=self.answer_tokens,
                        now_s=now_s,
                    )
                )
        return Run(request, shape=shape, answers=texts, group=Group(generations))

    def _pooling(self, prompt_tokens: int) -> Generation:
        now_s = asyncio.get_running_loop().time()
        request = Request(prompt_tokens=prompt_tokens, output_tokens=1, arrived_s=now_s)
        return Generation(request=request, finish_reason="stop", max_tokens=1)

    def _model(self, name: str | None) -> str:
        """The name that answers carry; raises `ApiError` if it is not served."""
        names = [] if self.engine.faults.no_models else self.served.all_names
        if name not in names and (name or not names):
            raise errors.unknown_model(str(name), served=names)
        return name if name in self.served.adapters else self.served.names[0]

    @contextlib.asynccontextmanager
    async def _running(self, group: Group, receive: Receive) -> AsyncIterator[None]:
        """The group is in the engine while the block runs, and out of it as soon as the client leaves."""
        self.engine.submit(group)
        try:
            async with asgi.watching(receive, lambda: group.fail(ClientLeft())):
                yield
        finally:
            self.engine.abort(group)


async def _read(scope: Scope, receive: Receive) -> dict[str, Any]:
    content_type = asgi.header(scope, "content-type") or ""
    return body.read_json(await asgi.read_body(receive), content_type)


def _vector(text: "str | list[int]") -> list[float]:
    """A vector of length one, the same for the same text."""
    chance = random.Random(str(text))
    values = [chance.gauss(0, 1) for _ in range(_EMBEDDING_DIMENSIONS)]
    length = sum(value * value for value in values) ** 0.5
    return [round(value / length, 6) for value in values]
