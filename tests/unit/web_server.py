"""A web server on loopback that does to a client what web servers do, on command.

It is a real TLS server (or a plain one) with Range, ETag and Basic or Bearer checks, from the
standard library. Faults are given per path and used up request by request.
"""

import threading
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens to one request instead of a plain answer."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    drop_after: int | None = None
    """Close the connection after so many bytes of the body."""
    hold_after: int | None = None
    """Send so many bytes of the body and then nothing until the server is told to `release`."""
    ignore_range: bool = False
    wrong_range: bool = False
    claim_bytes: int | None = None
    """Content-Length to send instead of the true one."""
    no_length: bool = False
    delay_s: float = 0.0
    """Pause between pieces of a thousand bytes."""


@dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "WebServer"

    def do_HEAD(self):
        self._answer()

    def do_GET(self):
        self._answer()

    def _answer(self):
        path = self.path.partition("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.note(Request(method=self.command, path=self.path, headers=headers))
        if (
            self.server.authorization is not None
            and headers.get("authorization") != self.server.authorization
        ):
            return self._send(Fault(status=403 if "authorization" in headers else 401))
        faults = self.server.faults[f"{self.command} {path}"]
        fault = faults.popleft() if faults else Fault()
        if fault.status is not None:
            return self._send(fault)
        content = self.server.files.get(path)
        if content is None:
            return self._send(Fault(status=404))
        return self._send_file(content, fault, headers)

    def _send(self, fault):
        self.send_response(fault.status)
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(fault.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(fault.body)

    def _send_file(self, content, fault, headers):
        etag = f'"{sha256(content).hexdigest()[:16]}"'
        start, end, status = 0, len(content), 200
        asked = headers.get("range", "")
        may_resume = headers.get("if-range", etag) == etag and not fault.ignore_range
        if asked and may_resume:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end, status = int(first), min(int(last or len(content)) + 1, len(content)), 206
            if start >= len(content):
                return self._send(Fault(status=416, headers={"Content-Range": f"bytes */{len(content)}"}))
        body = content[start:end]
        self.send_response(status)
        self.send_header("ETag", etag)
        if status == 206:
            told = start + 1 if fault.wrong_range else start
            self.send_header("Content-Range", f"bytes {told}-{end - 1}/{len(content)}")
        if fault.no_length:
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(fault.claim_bytes or len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return None
        return self._send_body(body, fault)

    def _send_body(self, body, fault):
        if fault.delay_s:
            for at in range(0, len(body), 1000):
                self.wfile.write(body[at : at + 1000])
                time.sleep(fault.delay_s)
        elif fault.drop_after is not None:
            self.wfile.write(body[: fault.drop_after])
            self.close_connection = True
        elif fault.hold_after is not None:
            self.wfile.write(body[: fault.hold_after])
            self.wfile.flush()
            self.server.released.wait()
            self.close_connection = True
        else:
            self.wfile.write(body[: fault.claim_bytes])
            if fault.claim_bytes is not None:
                self.close_connection = True

    def log_message(self, format, *args):
        pass


class WebServer(ThreadingHTTPServer):
    """Serves `files`; use as a context manager."""

    daemon_threads = True

    def __init__(self, *, tls=None, address="127.0.0.1"):
        super().__init__((address, 0), _Handler)
        self.tls = tls
        self.files: dict[str, bytes] = {}
        self.faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self.requests: list[Request] = []
        self.authorization: str | None = None
        self.released = threading.Event()
        self._news = threading.Condition()

    def get_request(self):
        connection, address = super().get_request()
        if self.tls is not None:
            connection = self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, request, client_address):
        """A client that goes away or distrusts us is part of the tests."""

    def note(self, request: Request) -> None:
        with self._news:
            self.requests.append(request)
            self._news.notify_all()

    def wait_until(self, seen, *, timeout_s: float = 10) -> None:
        """Block until `seen(requests)` is true."""
        with self._news:
            assert self._news.wait_for(lambda: seen(self.requests), timeout_s), self.requests

    @property
    def url(self) -> str:
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{self.server_address[0]}:{self.server_address[1]}"

    def fail(self, target: str, *faults: Fault) -> None:
        """Queue faults for `GET /path` or `HEAD /path`."""
        self.faults[target].extend(faults)

    def ranges(self, path: str) -> list[str | None]:
        """The Range header of each GET of a path, in order."""
        return [r.headers.get("range") for r in self.requests if r.method == "GET" and r.path == path]

    def put_folder(self, prefix: str, files: dict[str, bytes]) -> None:
        """Serve files and the SHA256SUMS that goes with them."""
        lines = []
        for path, content in sorted(files.items(), key=lambda item: item[0].encode()):
            self.files[f"{prefix}/{path}"] = content
            lines.append(f"{sha256(content).hexdigest()}  {path}\n")
        self.files[f"{prefix}/SHA256SUMS"] = "".join(lines).encode()

    def __enter__(self):
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *exc_info):
        self.released.set()
        self.shutdown()
        self._thread.join()
        self.server_close()
