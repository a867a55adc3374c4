"""Clients that ask, wait, leave and dawdle as their plans say, and judge what they get."""

import asyncio
import json
import socket

import httptools

_SMALL_BUFFER = 64 * 1024
MAY_BE_LOST = frozenset({"leaves in the head", "resets at once"})
"""The gateway may never have seen such a request."""


def _head(plan, *lines, version=b"1.1"):
    first = (
        b"POST /v1/chat/completions HTTP/%b\r\nhost: gateway\r\ncontent-type: application/json\r\n" % version
    )
    return b"%bx-request-id: %b\r\n%b\r\n" % (first, plan.name, b"".join(lines))


def _whole(plan, **kwargs):
    body = plan.body
    return _head(plan, b"content-length: %d\r\n" % len(body), **kwargs) + body


class Client(asyncio.Protocol):
    """One connection, with one or two requests."""

    def __init__(self, soak, plans):
        self.soak = soak
        self.plans = plans
        self.loop = asyncio.get_running_loop()
        self.left = False
        """Whether this side has left."""
        self.on_message_begin()

    @property
    def plan(self):
        return self.plans[0]

    def connection_made(self, transport):
        self.transport = transport
        if self.plan.client in ("reads slowly", "reads no more"):
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
        self.begin()

    def begin(self):
        """Send the next request."""
        self.parser = httptools.HttpResponseParser(self)
        plan, write = self.plan, self.transport.write
        match plan.client:
            case "asks twice at once" if len(self.plans) == 2:
                write(_whole(plan) + _whole(self.plans[1]))
            case "asks with chunks":
                body = plan.body
                write(_head(plan, b"transfer-encoding: chunked\r\n"))
                write(b"5\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (body[:5], len(body) - 5, body[5:]))
            case "asks piece by piece":
                whole = _whole(plan)
                self.step([whole[:60], whole[60:250], whole[250:]])
            case "asks and expects":
                body = plan.body
                write(_head(plan, b"expect: 100-continue\r\n", b"content-length: %d\r\n" % len(body)))
                self.later(write, body)
            case "asks as in HTTP/1.0":
                write(_whole(plan, version=b"1.0"))
            case "leaves in the head":
                write(_whole(plan)[:80])
                self.later(self.leave)
            case "leaves in the body":
                write(_whole(plan)[:-10])
                self.later(self.leave)
            case "leaves at once":
                write(_whole(plan))
                self.leave()
            case "resets at once":
                write(_whole(plan))
                self.transport.abort()
            case "leaves soon":
                write(_whole(plan))
                self.later(self.leave)
            case "reads slowly":
                write(_whole(plan))
                self.transport.pause_reading()
                self.loop.call_later(0.3, self.unless_closed, self.transport.resume_reading)
            case "reads no more":
                write(_whole(plan))
                self.transport.pause_reading()
                # Longer than the gateway waits for it; then it finds the connection reset.
                self.loop.call_later(4, self.unless_closed, self.transport.resume_reading)
            case _:
                write(_whole(plan))

    def step(self, pieces):
        self.transport.write(pieces[0])
        if len(pieces) > 1:
            self.later(self.step, pieces[1:])

    def later(self, callback, *args):
        """Do it later, if that request is still the one under way."""
        self.loop.call_later(self.plan.pause_s, self.unless_over, self.plan, callback, *args)

    def unless_over(self, plan, callback, *args):
        if plan in self.plans[:1]:
            self.unless_closed(callback, *args)

    def unless_closed(self, callback, *args):
        if not self.transport.is_closing():
            callback(*args)

    def leave(self):
        self.left = True
        self.transport.close()

    @property
    def ends_by_closing(self):
        """Whether the answer says neither how long it is nor that it comes in chunks."""
        framing = (b"content-length", b"transfer-encoding")
        return self.head_complete and not any(name in self.headers for name in framing)

    def is_whole(self):
        """Whether an answer that ends by closing is all there."""
        if self.is_stream:
            return self.body.endswith(b"data: [DONE]\n\n") and b'"error"' not in self.body
        return self.body.endswith(b"}}")

    # What comes.

    def data_received(self, data):
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.soak.fault(self.plan, f"not HTTP: {error} in {data[-1000:]!r}")
            self.transport.abort()

    def connection_lost(self, exc):
        if self.plans:
            self.lost(exc)
        self.soak.client_closed()

    def lost(self, exc):
        """It closed before the end of an answer."""
        plan = self.plans.pop(0)
        if self.left or plan.client in MAY_BE_LOST or plan.client == "reads no more":
            self.soak.saw_nothing(plan)
        elif self.ends_by_closing and self.is_whole():
            self.soak.saw_answer(plan, 200)
        elif self.status == 200 and self.is_stream and self.head_complete:
            if b"[DONE]" in self.body:
                self.soak.fault(plan, "a stream that was cut off looks complete")
            self.check_events(plan)
            self.soak.saw_broken(plan)
        elif self.head_complete and not self.is_stream:
            self.soak.saw_broken(plan)
        else:
            self.soak.fault(plan, f"closed without an answer, {exc!r}")
        for other in self.plans:
            # Pipelined behind an answer that broke off: the gateway may never have looked at it.
            self.soak.saw_nothing(other, may_be_lost=True)

    def on_message_begin(self):
        self.body = b""
        self.headers = {}
        self.head_complete = self.is_stream = False
        self.status = 0

    def on_header(self, name, value):
        self.headers[name.lower()] = value

    def on_headers_complete(self):
        self.status = self.parser.get_status_code()
        self.head_complete = self.status >= 200
        self.is_stream = self.headers.get(b"content-type") == b"text/event-stream"

    def on_body(self, body):
        self.body += body
        if self.plan.client == "leaves in the answer" and not self.left:
            self.leave()

    def on_message_complete(self):
        if not self.head_complete or self.left:
            return
        plan = self.plans.pop(0)
        name = self.headers.get(b"x-request-id")
        if name != plan.name:
            self.soak.fault(plan, f"an answer with the name {name!r}")
        if self.status == 200 and self.is_stream:
            self.check_events(plan)
            if not self.body.endswith(b"data: [DONE]\n\n") or b'"error"' in self.body:
                self.soak.fault(plan, f"a stream that failed looks complete: {self.body[-200:]!r}")
            self.soak.saw_answer(plan, 200)
        elif self.status == 200:
            if json.loads(self.body)["id"].encode() != plan.name:
                self.soak.fault(plan, f"the answer of another request: {self.body[:200]!r}")
            self.soak.saw_answer(plan, 200)
        else:
            if "error" not in json.loads(self.body):
                self.soak.fault(plan, f"an error that does not say so: {self.body[:200]!r}")
            if self.status in (429, 503) and b"retry-after" not in self.headers and plan.engine[:4] != "says":
                self.soak.fault(plan, f"{self.status} does not say when to come back")
            self.soak.saw_answer(plan, self.status)
        closes = self.headers.get(b"connection") == b"close"
        if not self.plans and not closes:
            self.plans = self.soak.more()
            if self.plans:
                self.begin()
                return
        elif self.plans and not closes:
            return
        for other in self.plans:
            self.soak.saw_nothing(other, may_be_lost=True)
        self.plans = []
        self.transport.close()

    def check_events(self, plan):
        """Every event is of this request, and none is missing in between."""
        events = [e for e in self.body.split(b"\n\n") if e.startswith(b'data: {"id"')]
        expected = b'data: {"id": "%b", "n": %d,'
        for number, event in enumerate(events):
            if not event.startswith(expected % (plan.name, number)) and b'"usage"' not in event:
                self.soak.fault(plan, f"event {number} is {event[:100]!r}")
                return
