"""An engine that does to each request what its plan says."""

import asyncio
import json

import httptools

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_DONE = b"data: [DONE]\n\n"
_LAST_CHUNK = b"0\r\n\r\n"
_A_LOT = b"x" * 65_536
_PIECES_OF_A_LOT = 96


def _chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def _event(name, number, more=b""):
    return b'data: {"id": "%b", "n": %d, "choices": [{"delta": {"content": "%b"}}]}\n\n' % (
        name,
        number,
        more,
    )


def _error(message, code):
    return b'data: {"error": {"message": "%b", "type": "x", "code": %d}}\n\n' % (message, code)


def _usage(name, events):
    figures = b'"prompt_tokens": 9, "completion_tokens": %d, "total_tokens": %d' % (events, events + 9)
    return b'data: {"id": "%b", "choices": [], "usage": {%b}}\n\n' % (name, figures)


class _Side(asyncio.Protocol):
    """One connection from the gateway."""

    def __init__(self, engine):
        self.engine = engine
        self.parser = httptools.HttpRequestParser(self)
        self.loop = asyncio.get_running_loop()
        self.may_write = asyncio.Event()
        self.may_write.set()

    def connection_made(self, transport):
        self.transport = transport
        self.write = transport.write
        self.engine.sides.add(self)

    def connection_lost(self, exc):
        self.engine.sides.discard(self)

    def pause_writing(self):
        self.paused = True

    def resume_writing(self):
        self.paused = False
        if self.left:
            self.send_a_lot()

    paused = False
    left = 0

    def data_received(self, data):
        if not self.engine.deaf:
            self.parser.feed_data(data)

    def on_message_begin(self):
        self.body = b""

    def on_header(self, name, value):
        if name.lower() == b"x-request-id":
            self.name = value

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        content = json.loads(self.body)
        script = content["script"]
        self.events, self.pause_s = script["events"], script["pause_s"]
        does = script["engine"]
        if self.engine.note(self.name) > 1 and not script["again"]:
            does = "streams" if content["stream"] else "answers"
        getattr(self, does.replace(" ", "_"), None)() if hasattr(self, does.replace(" ", "_")) else self.say(
            does
        )

    def later(self, callback, *args):
        self.loop.call_later(self.pause_s, self.unless_closed, callback, *args)

    def unless_closed(self, callback, *args):
        if not self.transport.is_closing():
            callback(*args)

    # Answers as a whole.

    def whole(self, body, *, status=200, more=b""):
        self.write(
            b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\nx-stoker-in-flight: 3\r\n%bcontent-length: "
            b"%d\r\n\r\n%b" % (status, more, len(body), body)
        )

    def content(self):
        return b'{"id": "%b", "usage": {"prompt_tokens": 9, "completion_tokens": 3}}' % self.name

    def answers(self):
        if self.events < 4:
            self.later(self.whole, self.content())
        else:
            self.whole(self.content())

    def answers_in_chunks(self):
        body = self.content()
        self.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
            + _chunk(body[:7])
        )
        self.later(self.write, _chunk(body[7:]) + _LAST_CHUNK)

    def answers_and_closes(self):
        self.whole(self.content(), more=b"connection: close\r\n" if self.events % 2 else b"")
        self.transport.close()

    def answers_too_much(self):
        self.whole(self.content())
        self.write(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes")

    def dies_in_an_answer(self):
        self.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{")
        self.later(self.transport.abort)

    def say(self, does):
        status = int(does.removeprefix("says "))
        self.whole(b'{"error": {"message": "no"}}', status=status)

    # Answers as streams.

    def some(self):
        return [_event(self.name, number) for number in range(self.events)]

    def end(self):
        return [_usage(self.name, self.events), _DONE]

    def streams(self):
        self.write(_HEAD)
        for event in (*self.some(), *self.end()):
            self.write(_chunk(event))
        self.write(_LAST_CHUNK)

    def streams_in_one_write(self):
        self.write(_HEAD + b"".join(map(_chunk, (*self.some(), *self.end()))) + _LAST_CHUNK)

    def streams_in_odd_pieces(self):
        raw = _HEAD + b"".join(map(_chunk, (*self.some(), *self.end()))) + _LAST_CHUNK
        size = 20 + self.events * 37
        self.step([raw[start : start + size] for start in range(0, len(raw), size)])

    def streams_slowly(self):
        chunks = [_chunk(event) for event in (*self.some(), *self.end())]
        self.step([_HEAD, *chunks, _LAST_CHUNK])

    def step(self, pieces):
        self.write(pieces[0])
        if len(pieces) > 1:
            self.later(self.step, pieces[1:])

    def streams_a_lot(self):
        self.events = _PIECES_OF_A_LOT
        self.left = _PIECES_OF_A_LOT
        self.write(_HEAD)
        self.send_a_lot()

    def send_a_lot(self):
        while self.left and not self.paused:
            self.left -= 1
            self.write(_chunk(_event(self.name, _PIECES_OF_A_LOT - 1 - self.left, _A_LOT)))
            if not self.left:
                self.write(b"".join(map(_chunk, self.end())) + _LAST_CHUNK)

    # Failures.

    def begin(self, *more):
        self.write(b"".join((_HEAD, *map(_chunk, self.some()), *more)))

    def hangs(self):
        pass

    def hangs_after_the_head(self):
        self.write(_HEAD)

    def hangs_in_a_stream(self):
        self.begin()

    def dies_at_once(self):
        self.transport.abort()

    def closes_at_once(self):
        self.transport.close()

    def dies_after_the_head(self):
        self.write(_HEAD)
        self.later(self.transport.abort)

    def dies_between_events(self):
        self.begin()
        self.later(self.transport.abort)

    def closes_between_events(self):
        self.begin()
        self.transport.close()

    def dies_in_an_event(self):
        self.begin(b'50\r\ndata: {"choices": [')
        self.later(self.transport.abort)

    def refuses_with_an_event(self):
        self.write(_HEAD + _chunk(_error(b"full", 503)) + _chunk(_DONE) + _LAST_CHUNK)

    def calls_it_wrong_with_an_event(self):
        self.write(_HEAD + _chunk(_error(b"wrong", 400)) + _chunk(_DONE) + _LAST_CHUNK)

    def fails_with_an_event(self):
        self.begin(_chunk(_error(b"EngineDeadError", 500)), _chunk(_DONE), _LAST_CHUNK)

    def is_out_of_memory(self):
        self.begin(_chunk(_error(b"CUDA out of memory", 500)), _chunk(_DONE), _LAST_CHUNK)

    def talks_nonsense(self):
        self.write(b"SSH-2.0-OpenSSH_9.2\r\n" * self.events)


class Engine:
    """One instance."""

    def __init__(self, attempts):
        self.attempts = attempts
        """How often each request came to any engine."""
        self.sides = set()
        self.deaf = False
        """Whether it accepts connections and reads nothing of what comes."""

    async def start(self):
        self.server = await asyncio.get_running_loop().create_server(lambda: _Side(self), "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    def note(self, name):
        self.attempts[name] = times = self.attempts.get(name, 0) + 1
        return times

    def kill(self):
        """It is gone, with all that it was doing."""
        self.server.close()
        for side in list(self.sides):
            side.transport.abort()
