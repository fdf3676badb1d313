"""Web servers for tests: real sockets, one thread a connection, answers that a test writes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Request:
    """What arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Handler(BaseHTTPRequestHandler):
    """Hands every request to the server's function, which answers with the methods here."""

    protocol_version = "HTTP/1.1"
    server: Web

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        request = Request(
            self.command, self.path, dict(self.headers.items()), self.rfile.read(length)
        )
        with self.server.lock:
            self.server.requests.append(request)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.server.respond(self, request)

    do_GET = do_POST = do_HEAD = answer

    def send(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """A whole, honest answer."""
        self.begin(status, {"Content-Length": str(len(body))} | dict(headers or {}))
        self.wfile.write(body)

    def send_json(
        self, status: int, document: Any, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send(status, json.dumps(document).encode(), headers)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Status and headers alone."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def hang_up(self) -> None:
        """Ends the connection in the middle of whatever it was."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        return


class Web(ThreadingHTTPServer):
    """A server on a free port of 127.0.0.1."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, respond: Callable[[Handler, Request], None]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.respond = respond
        self.requests: list[Request] = []
        self.lock = threading.Lock()
        self.scheme = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is what many of these tests are about."""


@contextmanager
def serving(
    respond: Callable[[Handler, Request], None], tls: ssl.SSLContext | None = None
) -> Iterator[Web]:
    """A running server; with ``tls`` it speaks https."""
    web = Web(respond)
    if tls is not None:
        web.socket = tls.wrap_socket(web.socket, server_side=True)
        web.scheme = "https"
    thread = threading.Thread(target=web.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        web.shutdown()
        web.server_close()
        thread.join()


@dataclass
class Files:
    """A source of files as a good one is: lengths, ETags, ranges. ``trick`` may answer instead (and
    then returns True)."""

    files: dict[str, bytes]
    trick: Callable[[Handler, Request, bytes], bool] = field(
        default_factory=lambda: lambda handler, request, content: False
    )
    etag: str | None = None

    def __call__(self, handler: Handler, request: Request) -> None:
        content = self.files.get(urlsplit(request.path).path.lstrip("/"))
        if content is None:
            handler.send(404, b"no such file")
            return
        if self.trick(handler, request, content):
            return
        self.good(handler, request, content)

    def good(self, handler: Handler, request: Request, content: bytes) -> None:
        etag = self.etag or f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        wanted = request.headers.get("Range")
        if wanted and request.headers.get("If-Range", etag) == etag:
            start = int(wanted.removeprefix("bytes=").split("-")[0])
            if start >= len(content):
                handler.send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
                return
            place = f"bytes {start}-{len(content) - 1}/{len(content)}"
            handler.send(206, content[start:], {"ETag": etag, "Content-Range": place})
            return
        handler.send(200, content, {"ETag": etag})


def proxy(handler: Handler, request: Request) -> None:
    """A forward proxy: CONNECT for https, whole addresses for http."""
    if request.method == "CONNECT":
        host, port = request.path.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as upstream:
            handler.begin(200, {})
            _join(handler.connection, upstream)
        handler.close_connection = True
        return
    parts = urlsplit(request.path)
    assert parts.hostname is not None
    with socket.create_connection((parts.hostname, parts.port or 80)) as upstream:
        kept = {k: v for k, v in request.headers.items() if not k.lower().startswith("proxy-")}
        head = [f"{request.method} {parts.path} HTTP/1.1"]
        head += [f"{name}: {value}" for name, value in (kept | {"Connection": "close"}).items()]
        upstream.sendall("\r\n".join([*head, "", ""]).encode() + request.body)
        while data := upstream.recv(65536):
            handler.wfile.write(data)
    handler.close_connection = True


Handler.do_CONNECT = Handler.answer  # type: ignore[attr-defined]


def _join(one: socket.socket, other: socket.socket) -> None:
    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    there = threading.Thread(target=copy, args=(one, other), daemon=True)
    there.start()
    copy(other, one)
    there.join(5)
