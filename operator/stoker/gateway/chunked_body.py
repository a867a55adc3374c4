"""What is the body of a request that comes in chunks?

httptools reads the chunks; it is given a head of our own, so that it knows nothing else of the
request. What the client sent after the last chunk can't be told apart here: the connection then
closes after the answer, and a client that had sent another request sends it again. Trailers are
read and dropped.
"""

import httptools

from stoker.gateway.errors import Code, Rejection

_HEAD = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


class ChunkedBody:
    """One body; `feed` it until it is `complete`."""

    __slots__ = ("_body", "_most_bytes", "_parser", "_received", "complete", "more_follows")

    def __init__(self, *, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._received = 0
        """With sizes and trailers, which are not free either."""
        self._body = bytearray()  # A list would take six times the memory, if the chunks are small.
        self.complete = False
        self.more_follows = False
        """Whether bytes came that belong to a next request."""
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(_HEAD)

    def on_body(self, piece: bytes) -> None:
        """The parser has read a part of this body, or of one behind it."""
        if not self.complete:
            self._body += piece

    def on_message_complete(self) -> None:
        """The parser has read the last chunk and the trailers."""
        self.complete = True

    def on_message_begin(self) -> None:
        """The parser has begun with this message, or with one behind it."""
        self.more_follows = self.complete

    def feed(self, data: bytes) -> Rejection | None:
        """Read on."""
        self._received += len(data)
        if self._received > self._most_bytes:
            return body_too_large(self._most_bytes)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if self.complete:
                self.more_follows = True
                return None
            found = str(error).replace("`", "'")
            return Rejection(
                code=Code.INVALID_REQUEST, message=f"The request's chunked body is malformed: {found}."
            )
        return None

    def body(self) -> bytes:
        """The whole body."""
        return bytes(self._body)


def body_too_large(most_bytes: int) -> Rejection:
    """The rejection of a body over the limit."""
    return Rejection(
        code=Code.BODY_TOO_LARGE,
        message=f"The request's body is over the limit of {most_bytes} bytes; send less.",
    )
