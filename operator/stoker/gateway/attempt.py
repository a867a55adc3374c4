"""What becomes of one request on one instance?

An attempt holds a place on its instance from its making to `release`, the one line where the place
is given back. It sends the request, relays the answer while that comes, and tells its exchange how
it ended; what then happens (another attempt, a refusal, a broken stream) is the exchange's decision.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

from stoker.gateway.engine_answer import EngineAnswer
from stoker.gateway.engine_connection import UNREACHABLE, EngineConnection
from stoker.gateway.errors import Code
from stoker.gateway.instances import Evidence, Instance
from stoker.gateway.outcome import Outcome, RequestRecord
from stoker.gateway.pool import pool_of
from stoker.gateway.request import BYTES_PER_TOKEN

if TYPE_CHECKING:
    from stoker.gateway.exchange import Exchange

_ELSEWHERE = frozenset({429, 500, 502, 503, 504})
"""Statuses with which an engine says nothing about the request itself."""


class Attempt:
    """One request on one instance."""

    __slots__ = (
        "_anew",
        "_engine",
        "_exchange",
        "_holds_place",
        "_paused",
        "_ticket",
        "answer",
        "first_byte_s",
        "instance",
        "last_byte_s",
        "response_bytes",
    )

    def __init__(self, exchange: "Exchange", instance: Instance, now_s: float) -> None:
        self._exchange = exchange
        self.instance = instance
        self._ticket = instance.acquire(now_s)
        self._holds_place = True
        self._engine: EngineConnection | None = None
        self._anew = False
        """Whether it was sent once more on a new connection."""
        self._paused = False
        self.answer: EngineAnswer | None = None
        """What the engine says; None until it has said something."""
        self.first_byte_s: float | None = None
        """When the client got the first of it."""
        self.last_byte_s = 0.0
        self.response_bytes = 0

    @property
    def begun(self) -> bool:
        """Whether the client has got anything of the answer, so that it can have no other."""
        return self.first_byte_s is not None

    def describe(self, record: RequestRecord) -> None:
        """Say in the record what this attempt knows."""
        instance, answer, first_byte_s = self.instance, self.answer, self.first_byte_s
        record.instance = instance.name
        record.revision = instance.revision
        record.model_version = instance.model_version
        record.response_bytes = self.response_bytes
        record.first_byte_s = record.inter_token_s = None
        events = 0
        if answer is not None and answer.stream is not None:
            events = answer.stream.events
        record.events = events
        usage = answer.usage() if answer is not None else None
        record.estimated = False
        if first_byte_s is not None and answer is not None:
            record.status = answer.status
            record.first_byte_s = first_byte_s - record.arrival_s
            if events > 1:
                record.inter_token_s = (self.last_byte_s - first_byte_s) / (events - 1)
            # An answer that is complete and not a stream has figures, or nothing to count.
            record.estimated = usage is None and (events > 0 or record.outcome is not Outcome.OK)
        if usage is not None:
            record.prompt_tokens = usage.prompt_tokens
            record.cached_tokens = usage.cached_tokens
            record.completion_tokens = usage.completion_tokens
        else:
            record.prompt_tokens = record.request_bytes // BYTES_PER_TOKEN if record.estimated else 0
            record.cached_tokens = 0
            record.completion_tokens = events

    def start(self) -> None:
        """Send the request, as soon as there is a connection."""
        exchange = self._exchange
        self._engine = pool_of(self.instance, exchange.data_path).carry(self)

    def release(self, evidence: Evidence, now_s: float) -> None:
        """Give the place back, once."""
        if not self._holds_place:
            return
        self._holds_place = False
        self.instance.release(self._ticket, evidence, now_s)
        service = self._exchange.service
        assert service is not None
        service.queue.finished(now_s)

    def abort(self) -> None:
        """Close the connection, if it is still this one's: the engine stops its work."""
        engine = self._engine
        if engine is not None:
            self._engine = None
            engine.abort()

    def pause(self) -> None:
        """The client takes no more for now."""
        self._paused = True
        if self._engine is not None:
            self._engine.pause()

    def resume(self) -> None:
        """The client takes more again."""
        self._paused = False
        if self._engine is not None:
            self._engine.resume()
            data_path = self._exchange.data_path
            self._engine.expect_by(data_path.clock() + data_path.limits.silence_s)

    # What the engine's connection says.

    def send(self, engine: EngineConnection) -> None:
        """The connection is open."""
        self._engine = engine
        exchange = self._exchange
        engine.write(*exchange.request())
        data_path = exchange.data_path
        engine.expect_by(data_path.clock() + exchange.first_byte_timeout_s)

    def relay(self, engine: EngineConnection, data: bytes, *, complete: bool) -> None:
        """A piece of the answer has come, the last one if `complete`."""
        exchange = self._exchange
        data_path = exchange.data_path
        now_s = data_path.clock()
        if complete:
            self._engine = None  # It is back in its pool.
        answer = self.answer
        if answer is None:
            answer = self._read_head(engine, now_s)
            if engine.status in _ELSEWHERE and exchange.goes_elsewhere(self, _evidence(engine.status), now_s):
                return
        data = answer.take(data, complete=complete)
        if answer.error is not None:
            exchange.stream_failed(self, data, now_s)
            return
        if self.first_byte_s is None:
            if not data and not complete:
                return
            self.begin(data, now_s, complete=complete)
        elif data or complete:
            self.response_bytes += len(data)
            self.last_byte_s = now_s
            exchange.client.write(answer.framed(data, complete=complete))
        if complete:
            self.release(_evidence(answer.status), now_s)
            exchange.completed(self, now_s)
        elif not self._paused:
            engine.deadline_s = now_s + data_path.limits.silence_s

    def begin(self, data: bytes, now_s: float, *, complete: bool) -> None:
        """Send the client the head and the first of the body."""
        answer, instance, exchange = self.answer, self.instance, self._exchange
        assert answer is not None
        self.first_byte_s = self.last_byte_s = now_s
        self.response_bytes = len(data)
        if answer.status < 500:
            instance.answered(self._ticket, now_s)
        if self._engine is not None:
            self._engine.expect_by(now_s + exchange.data_path.limits.silence_s)
        identity = b"x-request-id: %b\r\n%b" % (
            exchange.request_id,
            _identity(instance.name, instance.model_version),
        )
        client = exchange.client
        head = answer.head(identity, close=client.will_close)
        client.write(head + answer.framed(data, complete=complete))
        exchange.begun()

    def engine_lost(self, engine: EngineConnection, how: str) -> None:
        """The connection could not be opened, or closed before the end of the answer."""
        self._engine = None
        if engine.used and not engine.answered and not self._anew:
            # It crossed with the engine's closing of an idle connection.
            self._anew = True
            self._engine = pool_of(self.instance, self._exchange.data_path).carry(self, anew=True)
            return
        code = Code.ENGINE_UNREACHABLE if how is UNREACHABLE else Code.ENGINE_FAILED
        self._exchange.failed(self, code, f"The instance {how}; send the request again.", Evidence.FAILED)

    def engine_silent(self) -> None:
        """Nothing came for too long; the connection is closed."""
        self._engine = None
        message = "The instance sent nothing for too long; send the request again."
        self._exchange.failed(self, Code.ENGINE_TIMEOUT, message, Evidence.SILENT)

    def _read_head(self, engine: EngineConnection, now_s: float) -> EngineAnswer:
        answer = self.answer = EngineAnswer(
            status=engine.status,
            headers=engine.headers,
            drops_usage=self._exchange.adds_usage,
            http_1_0=self._exchange.http_1_0,
        )
        if answer.in_flight is not None:
            self.instance.says_in_flight(answer.in_flight, now_s)
        return answer


def _evidence(status: int) -> Evidence:
    return Evidence.FAILED if status >= 500 else Evidence.ANSWERED


@lru_cache(maxsize=4096)
def _identity(instance: str, model_version: str) -> bytes:
    """The lines of a head that say who answered."""
    version = "".join(c if " " <= c <= "~" else "?" for c in model_version)
    return f"x-stoker-instance: {instance}\r\nx-stoker-model-version: {version}\r\n".encode()
