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
from stoker.gateway.endpoints import check, endpoint_of
from stoker.gateway.engine_answer import status_of
from stoker.gateway.errors import Code, Rejection
from stoker.gateway.instances import Evidence, Instance
from stoker.gateway.outcome import Outcome, RequestRecord, outcome_of_code, outcome_of_status
from stoker.gateway.request import RequestBody, read_request
from stoker.gateway.request_head import RequestHead, request_id
from stoker.gateway.table import Route, RoutingTable, Service
from stoker.gateway.usage import NO_USAGE
from stoker.gateway.wishes import read_wishes

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
        "_endpoint",
        "_head",
        "_key",
        "_lease",
        "_queue_s",
        "_queued_since_s",
        "_request",
        "_request_bytes",
        "_retries",
        "_route",
        "body",
        "client",
        "data_path",
        "deadline_s",
        "excluded",
        "prefix_key",
        "priority",
        "request_id",
        "service",
        "session_key",
        "tokens",
        "workload",
    )

    def __init__(self, client: "ClientConnection", head: RequestHead, data_path: "DataPath") -> None:
        self.client = client
        self.data_path = data_path
        self._head = head
        self._endpoint = endpoint_of(head.path)
        self._arrival_s = data_path.clock()
        self.request_id = request_id(head) or data_path.request_ids.make()
        self.body: RequestBody | None = None
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
        return self._head.http_1_0

    @property
    def adds_usage(self) -> bool:
        """Whether the answer has usage that the client did not ask for."""
        return self.body is not None and self.body.adds_usage

    @property
    def first_byte_timeout_s(self) -> float:
        """How long an instance may take to the first byte; without a stream that is to the whole answer."""
        assert self.service is not None
        assert self.body is not None
        if self.body.stream:
            return self.service.state.first_byte_timeout_s
        return self.data_path.limits.answer_s

    # What the client's connection says.

    def check(self) -> Rejection | None:
        """What is wrong with the request, as far as its head tells."""
        keys = self.data_path.keys
        if keys is not None:
            key = keys.authenticate(self._head.headers.get(b"authorization"))
            if isinstance(key, Rejection):
                return key
            self._key = key
        return check(self._head, self._endpoint)

    def receive(self, content: bytes) -> None:
        """The whole body is there."""
        assert self._endpoint is not None
        self._request_bytes = len(content)
        content_type = self._head.headers.get(b"content-type", b"")
        body = read_request(content, endpoint=self._endpoint, content_type=content_type)
        rejection = body if isinstance(body, Rejection) else self._find_service(body) or self._read_wishes()
        if rejection is not None:
            self.refuse(rejection)
            return
        service = self.service
        assert service is not None
        service.retry_budget.earn()
        now_s = self._queued_since_s = self.data_path.clock()
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
                head_only=self._head.method == "HEAD",
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
            host = b"" if b"host" in self._head.headers else b"host: stoker\r\n"
            head = b"POST %b HTTP/1.1\r\n%b%bx-request-id: %b\r\ncontent-length: %d\r\n\r\n" % (
                self._head.target,
                b"".join(self._head.lines if self._key is None else self._head.lines_without_key()),
                host,
                self.request_id,
                len(content) + len(end),
            )
            request = self._request = (head, content, end)
        return request

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

    def _find_service(self, body: RequestBody) -> Rejection | None:
        self.body = body
        self.tokens = body.tokens
        self.prefix_key = body.prefix_key
        table = self.data_path.table
        route = self._route = table.find(body.model) or _only_route(table, body)
        if route is None:
            return table.not_found(body.model)
        self.service = route.service
        return None

    def _read_wishes(self) -> Rejection | None:
        """What the client says about how its request is to be treated, and what its key lets it."""
        assert self.service is not None
        wishes = read_wishes(self._head.headers, namespace=self.service.namespace, key=self._key)
        if isinstance(wishes, Rejection):
            return wishes
        self.workload, self.priority, self.session_key = wishes
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
        if self._lease is not None:
            self._lease.end(record.prompt_tokens + record.completion_tokens, now_s)
        self.data_path.on_end(record)

    def _record(self, outcome: Outcome, now_s: float, *, status: int, code: str) -> RequestRecord:
        service, route, body, attempt = self.service, self._route, self.body, self._attempt
        instance = attempt.instance if attempt is not None else None
        begun = attempt is not None and attempt.begun
        usage, estimated = NO_USAGE, False
        if attempt is not None:
            usage, estimated = attempt.tokens(self._request_bytes, complete=outcome is Outcome.OK)
        return RequestRecord(
            request_id=self.request_id.decode(),
            traceparent=self._head.headers.get(b"traceparent", b"").decode("latin-1"),
            service=service.name if service is not None else "",
            namespace=service.namespace if service is not None else "",
            workload=self.workload,
            model=body.model if body is not None else "",
            adapter=route.adapter if route is not None else "",
            model_version=instance.model_version if instance is not None else "",
            revision=instance.revision if instance is not None else "",
            instance=instance.name if instance is not None else "",
            path=self._head.path,
            streaming=body is not None and body.stream,
            status=status or (attempt.answer.status if begun and attempt and attempt.answer else 0),
            outcome=outcome,
            code=code,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
            estimated=estimated,
            arrival_s=self._arrival_s,
            queue_s=self._queue_s,
            first_byte_s=attempt.first_byte_s - self._arrival_s if attempt and attempt.first_byte_s else None,
            inter_token_s=attempt.inter_token_s if attempt is not None else None,
            events=attempt.events if attempt is not None else 0,
            duration_s=now_s - self._arrival_s,
            retries=self._retries,
            request_bytes=self._request_bytes,
            response_bytes=attempt.response_bytes if attempt is not None else 0,
        )


def _only_route(table: RoutingTable, body: RequestBody) -> Route | None:
    """What a form without a model means where one service is all there is."""
    if body.model or len(table.services) != 1:
        return None
    (service,) = table.services.values()
    return table.find(f"{service.namespace}/{service.state.models[0]}")
