"""What happens to one request, from its head to its one outcome?

It reads the body, queues for the service that is named there, and is attempted on one instance after
another until one has answered. It ends in `_end`, exactly once, from whichever phase: there the
record is made. Everything is a method that a connection or the queue calls; nothing waits here.

Until the client has got a byte of an answer, the request can go to another instance, never to one
that failed it, and within the service's retry budget. After that, a stream that breaks off ends with
an error event and without `[DONE]` or a last chunk, so that nobody takes it for complete.
"""

import math
import random
from typing import TYPE_CHECKING

from stoker.gateway.answers import own_answer, rejection_answer
from stoker.gateway.attempt import Attempt
from stoker.gateway.engine_answer import status_of
from stoker.gateway.errors import Code, Rejection
from stoker.gateway.instances import Evidence, Instance
from stoker.gateway.known_heads import KnownHead
from stoker.gateway.outcome import Outcome, RequestRecord, outcome_of_code, outcome_of_status
from stoker.gateway.request import RequestBody, read_request
from stoker.gateway.table import Route, RoutingTable, Service

if TYPE_CHECKING:
    from stoker.gateway.client_connection import ClientConnection
    from stoker.gateway.data_path import DataPath
    from stoker.gateway.keys import Key, KeyLease


class Exchange:
    """One request and its answer; as a waiter of its service's queue, it is the request."""

    __slots__ = (
        "_arrival_s",
        "_attempt",
        "_ended",
        "_head",
        "_key",
        "_lease",
        "_queue_s",
        "_queued_since_s",
        "_request",
        "_request_bytes",
        "_retries",
        "_route",
        "_span",
        "adds_usage",
        "body",
        "client",
        "data_path",
        "deadline_s",
        "excluded",
        "first_byte_timeout_s",
        "prefix_key",
        "priority",
        "request_id",
        "service",
        "session_key",
        "tokens",
        "workload",
    )

    def __init__(self, client: "ClientConnection", head: KnownHead, data_path: "DataPath") -> None:
        self.client = client
        self.data_path = data_path
        self._head = head
        self._arrival_s = data_path.clock()
        tracing = data_path.tracing
        self._span = tracing.begin(head.traceparent) if tracing is not None else None
        self.request_id = head.request_id or data_path.request_ids.make()
        self.body: RequestBody | None = None
        self.adds_usage = False
        """Whether the answer has usage that the client did not ask for."""
        self.first_byte_timeout_s = data_path.limits.answer_s
        """How long an instance may take to the first byte; without a stream that is to the whole answer."""
        self._route: Route | None = None
        self._key: Key | None = None
        self._lease: KeyLease | None = None
        self.service: Service | None = None
        self._request: tuple[bytes, bytes, bytes] | None = None
        self._attempt: Attempt | None = None
        """The present one, or the last."""
        self._ended = False
        # What the queue and the choice of instance go by.
        self.priority = 0
        self.workload = ""
        self.tokens = 0
        self.deadline_s = 0.0
        self.prefix_key: int | None = None
        self.session_key: int | None = None
        self.excluded: list[Instance] = []
        # What only the record wants to know.
        self._request_bytes = 0
        self._queued_since_s: float | None = None
        self._queue_s = 0.0
        self._retries = 0

    @property
    def http_1_0(self) -> bool:
        """Whether the client can't read chunks."""
        return self._head.head.http_1_0

    # What the client's connection says.

    def check(self) -> Rejection | None:
        """What is wrong with the request, as far as its head tells."""
        keys = self.data_path.keys
        if keys is not None:
            key = keys.authenticate(self._head.head.headers.get(b"authorization"))
            if isinstance(key, Rejection):
                return key
            self._key = key
        return self._head.rejection

    def receive(self, content: bytes) -> None:
        """The whole body is there: queue for the service that it names."""
        head, data_path = self._head, self.data_path
        assert head.endpoint is not None
        self._request_bytes = len(content)
        content_type = head.head.headers[b"content-type"]
        body = read_request(content, endpoint=head.endpoint, content_type=content_type)
        if isinstance(body, Rejection):
            self.refuse(body)
            return
        self.body = body
        route = self._route = data_path.table.find(body.model) or _only_route(data_path.table, body)
        if route is None:
            self.refuse(data_path.table.not_found(body.model))
            return
        service = self.service = route.service
        self.tokens = body.tokens
        self.prefix_key = body.prefix_key
        rejection = self._read_wishes(service)
        if rejection is not None:
            self.refuse(rejection)
            return
        if body.stream:
            self.adds_usage = body.adds_usage
            self.first_byte_timeout_s = service.state.first_byte_timeout_s
        service.retry_budget.earn()
        now_s = self._queued_since_s = data_path.clock()
        self.deadline_s = now_s + service.state.max_wait_s
        service.queue.offer(self, now_s)

    def client_gone(self) -> None:
        """The client has left: so does its request, wherever it is."""
        if self._ended:
            return
        now_s = self.data_path.clock()
        if self.service is not None:
            self.service.queue.leave(self)
        if self._attempt is not None:
            self._attempt.abort()
            self._attempt.release(Evidence.NONE, now_s)
        self._end(Outcome.CLIENT_GONE, now_s)

    def pause(self) -> None:
        """The client takes no more for now."""
        if self._attempt is not None:
            self._attempt.pause()

    def resume(self) -> None:
        """The client takes more again."""
        if self._attempt is not None:
            self._attempt.resume()

    # What the queue says.

    def start(self, instance: Instance) -> None:
        """There is a place on this instance."""
        now_s = self.data_path.clock()
        self._leave_queue(now_s)
        attempt = self._attempt = Attempt(self, instance, now_s)
        attempt.start()

    def refuse(self, rejection: Rejection) -> None:
        """Answer that it is not served."""
        client = self.client
        client.write(
            rejection_answer(
                rejection,
                request_id=self.request_id,
                close=client.will_close,
                head_only=self._head.head.method == "HEAD",
            )
        )
        now_s = self.data_path.clock()
        self._end(outcome_of_code(rejection.code), now_s, status=rejection.status, code=rejection.code)
        client.finished()

    # What an attempt says.

    def request(self) -> tuple[bytes, bytes, bytes]:
        """Head and body for the engine."""
        request = self._request
        if request is None:
            assert self.body is not None
            assert self._route is not None
            content, end = self.body.to_send(self._route.model)
            traceparent = self._span.traceparent() if self._span is not None else self._head.traceparent
            trace = f"traceparent: {traceparent}\r\n".encode("latin-1") if traceparent else b""
            head = b"%b%bx-request-id: %b\r\ncontent-length: %d\r\n\r\n" % (
                self._head.for_engine if self._key is None else self._head.for_engine_without_key,
                trace,
                self.request_id,
                len(content) + len(end),
            )
            request = self._request = (head, content, end)
        return request

    def begun(self) -> None:
        """The client has got something, so nothing is sent again: a long prompt needs no more memory."""
        self._request = None
        if self.body is not None:
            self.body.forget()

    def completed(self, attempt: Attempt, now_s: float) -> None:
        """The whole answer went to the client."""
        answer = attempt.answer
        assert answer is not None
        outcome = Outcome.OUT_OF_MEMORY if answer.no_memory else outcome_of_status(answer.status)
        self._end(outcome, now_s, status=answer.status)
        self.client.finished()

    def failed(self, attempt: Attempt, code: Code, message: str, evidence: Evidence) -> None:
        """The instance broke off: ask another one, or tell the client."""
        now_s = self.data_path.clock()
        answer, client, service = attempt.answer, self.client, self.service
        assert service is not None
        if not attempt.begun:
            if not self.goes_elsewhere(attempt, evidence, now_s):
                attempt.release(evidence, now_s)
                wait_s = service.queue.retry_after_s(now_s)
                self.refuse(Rejection(code=code, message=message, retry_after_s=wait_s))
            return
        assert answer is not None
        attempt.release(evidence, now_s)
        if answer.done:
            client.write(answer.framed(b"", complete=True))
            self.completed(attempt, now_s)
            return
        self._end(outcome_of_code(code), now_s, status=answer.status, code=code)
        if answer.takes_event:
            client.write(answer.framed(Rejection(code=code, message=message).event(), complete=False))
            client.will_close = True
            client.finished()
        else:
            client.abort()

    def stream_failed(self, attempt: Attempt, data: bytes, now_s: float) -> None:
        """An error event came: a refusal if it is the first event, else the end of the stream."""
        answer, client, service = attempt.answer, self.client, self.service
        assert answer is not None
        assert answer.error is not None
        assert service is not None
        refused = not attempt.begun and answer.refused
        status = status_of(answer.error)
        is_wrong = 400 <= status < 500 and status != 429
        evidence = Evidence.ANSWERED if status < 500 else Evidence.FAILED
        if refused and not is_wrong and self.goes_elsewhere(attempt, evidence, now_s):
            return
        attempt.abort()
        outcome = Outcome.UPSTREAM_ERROR
        if refused:
            outcome = outcome_of_status(status)
            wait_s = math.ceil(service.queue.retry_after_s(now_s))
            client.write(
                own_answer(
                    answer.error,
                    status=status,
                    request_id=self.request_id,
                    more=b"" if is_wrong else b"retry-after: %d\r\n" % wait_s,
                    close=client.will_close,
                )
            )
        else:
            client.will_close = True
            if attempt.begun:
                client.write(answer.framed(data, complete=False))
            else:
                attempt.begin(data, now_s, complete=False)
        attempt.release(evidence, now_s)
        outcome = Outcome.OUT_OF_MEMORY if answer.no_memory else outcome
        self._end(outcome, now_s, status=status if refused else answer.status, code=Code.ENGINE_FAILED)
        client.finished()

    def goes_elsewhere(self, attempt: Attempt, evidence: Evidence, now_s: float) -> bool:
        """Whether another instance is asked instead, or was and could not be."""
        service = self.service
        assert service is not None
        if (
            self._retries >= self.data_path.limits.retries
            or not service.router.could_go_elsewhere([*self.excluded, attempt.instance])
            or not service.retry_budget.spend()
        ):
            return False
        attempt.abort()
        self._retries += 1
        self.excluded.append(attempt.instance)
        self._queued_since_s = now_s
        attempt.release(evidence, now_s)
        if not service.queue.requeue(self, now_s):
            self._leave_queue(now_s)
            message = "The instance failed, and no other one is free in time; send the request again."
            wait_s = service.queue.retry_after_s(now_s)
            self.refuse(Rejection(code=Code.ENGINE_FAILED, message=message, retry_after_s=wait_s))
        return True

    # Its own.

    def _read_wishes(self, service: Service) -> Rejection | None:
        """What the client says about how its request is to be treated, and what its key lets it."""
        wishes = self._head.wishes
        if isinstance(wishes, Rejection):
            return wishes
        self.workload, self.priority = wishes.of(namespace=service.namespace, key=self._key)
        self.session_key = wishes.session_key
        if self._key is not None:
            lease = self._key.admit(self.tokens, self.data_path.clock(), random.random)
            if isinstance(lease, Rejection):
                return lease
            self._lease = lease
        return None

    def _leave_queue(self, now_s: float) -> None:
        if self._queued_since_s is not None:
            self._queue_s += now_s - self._queued_since_s
            self._queued_since_s = None

    def _end(self, outcome: Outcome, now_s: float, *, status: int = 0, code: str = "") -> None:
        """The one outcome; the record is made of it."""
        assert not self._ended, "a request has one outcome"
        self._ended = True
        self._leave_queue(now_s)
        record = self._record(outcome, now_s, status=status, code=code)
        # They know each other: without this only the garbage collector would free them (7 objects a request).
        self._attempt = None
        if self._lease is not None:
            self._lease.end(record.prompt_tokens + record.completion_tokens, now_s)
        self.data_path.on_end(record)

    def _record(self, outcome: Outcome, now_s: float, *, status: int, code: str) -> RequestRecord:
        head, service, body, attempt = self._head, self.service, self.body, self._attempt
        # Field by field: matching so many keywords would take 3 us.
        record = RequestRecord.__new__(RequestRecord)
        record.request_id = self.request_id.decode()
        record.traceparent = head.traceparent
        record.span = self._span
        record.path = head.head.path
        record.workload = self.workload
        record.outcome = outcome
        record.status = status
        record.code = code
        record.arrival_s = self._arrival_s
        record.queue_s = self._queue_s
        record.duration_s = now_s - self._arrival_s
        record.retries = self._retries
        record.request_bytes = self._request_bytes
        if body is not None:
            record.model = body.model
            record.streaming = body.stream
        else:
            record.model = ""
            record.streaming = False
        if service is not None and self._route is not None:
            record.service = service.name
            record.namespace = service.namespace
            record.adapter = self._route.adapter
        else:
            record.service = record.namespace = record.adapter = ""
        if attempt is not None:
            attempt.describe(record)
        else:
            record.instance = record.revision = record.model_version = ""
            record.first_byte_s = record.inter_token_s = None
            record.response_bytes = record.events = 0
            record.prompt_tokens = record.cached_tokens = record.completion_tokens = 0
            record.estimated = False
        return record


def _only_route(table: RoutingTable, body: RequestBody) -> Route | None:
    """What a form without a model means where one service is all there is."""
    if body.model or len(table.services) != 1:
        return None
    (service,) = table.services.values()
    return table.find(f"{service.namespace}/{service.state.models[0]}")
