"""How files are answered over HTTPS, with ranges and with the faults that a request asks for."""

import hmac
import re
import ssl
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from e2e.file_server.faults import Faults, split

_CHUNK_BYTES = 64 * 1024
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_TIMEOUT_S = 60


def make_server(folder: Path, *, address: str, port: int, tls: ssl.SSLContext | None) -> ThreadingHTTPServer:
    """A server of a folder's files, not yet serving; port 0 is any free one."""

    class Handler(_Handler):
        root = folder.resolve()

    server = ThreadingHTTPServer((address, port), Handler)
    if tls is not None:
        # The handshake belongs in the connection's own thread: a client that never ends it blocks nobody.
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server


class _Handler(BaseHTTPRequestHandler):
    root: Path
    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT_S

    def do_GET(self) -> None:
        """A file, or the part of it that was asked for."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """The same without the content."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        try:
            faults, name = split(unquote(urlsplit(self.path).path))
        except ValueError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        if faults.status is not None:
            self._refuse(HTTPStatus(faults.status), "as the path asks")
        elif faults.token is not None and not self._has(faults.token):
            self._refuse(HTTPStatus.UNAUTHORIZED, "no such token")
        elif (file := self._file(name)) is None:
            self._refuse(HTTPStatus.NOT_FOUND, f"no file {name}")
        else:
            self._send(file, faults, with_body=with_body)

    def _has(self, token: str) -> bool:
        given = self.headers.get("Authorization", "")
        return hmac.compare_digest(given.encode(), f"Bearer {token}".encode())

    def _file(self, name: str) -> Path | None:
        file = (self.root / name).resolve()
        return file if file.is_file() and file.is_relative_to(self.root) else None

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        body = f"{status.value} {status.phrase}: {why}\n".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send(self, file: Path, faults: Faults, *, with_body: bool) -> None:
        size = file.stat().st_size
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        first, last = 0, size - 1
        if asked:
            first, last = int(asked[1]), min(int(asked[2] or last), last)
            if first > last:
                self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
                self.send_header("Content-Range", f"bytes */{size}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        self.send_response(HTTPStatus.PARTIAL_CONTENT if asked else HTTPStatus.OK)
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("ETag", f'"{size}-{file.stat().st_mtime_ns}"')
        self.end_headers()
        if with_body:
            self._send_content(file, faults, first=first, last=last)

    def _send_content(self, file: Path, faults: Faults, *, first: int, last: int) -> None:
        started_at, sent = time.monotonic(), 0
        size = file.stat().st_size
        with file.open("rb") as content:
            content.seek(first)
            while (left := last + 1 - first - sent) > 0:
                chunk = bytearray(content.read(min(_CHUNK_BYTES, left)))
                if faults.corrupt and first + sent + len(chunk) == size:
                    chunk[-1] ^= 1
                if faults.drop_after_bytes is not None and sent + len(chunk) > faults.drop_after_bytes:
                    self.wfile.write(chunk[: faults.drop_after_bytes - sent])
                    self.close_connection = True
                    return
                sent += len(chunk)
                if faults.bytes_per_s is not None:
                    due_s = sent / faults.bytes_per_s
                    time.sleep(max(0.0, started_at + due_s - time.monotonic()))
                self.wfile.write(chunk)
