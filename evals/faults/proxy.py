"""A cable between client and server that can be cut at a chosen moment of a call."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

Moment = Literal["request", "reply", "half"]
"""When to cut: the request does not arrive; the reply does not; half of the reply does."""

NAME = ".s.PGSQL.5432"


class Proxy:
    """Forwards bytes between a Unix socket of its own and the server's."""

    def __init__(self, directory: Path, server: Path) -> None:
        self._server = str(server / NAME)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / NAME))
        self._listener.listen(64)
        self._lock = threading.Lock()
        self._armed: Moment | None = None
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, moment: Moment) -> None:
        """Cuts the next call at this moment."""
        with self._lock:
            self._armed = moment

    @property
    def armed(self) -> bool:
        return self._armed is not None

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._server)
            except OSError:
                client.close()
                continue
            line = _Line(self, client, server)
            for pump in (line.upstream, line.downstream):
                threading.Thread(target=pump, daemon=True).start()

    def take(self, *moments: Moment) -> Moment | None:
        """The moment that is armed, if it is one of these; it is armed no longer."""
        with self._lock:
            if self._armed in moments:
                moment, self._armed = self._armed, None
                self.cuts += 1
                return moment
            return None


class _Line:
    """One connection and its two directions."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._lost: Moment | None = None
        self._messages = 0

    def upstream(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(1 << 16):
                # The first bytes of a connection are its greeting, and no call.
                self._messages += 1
                if self._messages > 1:
                    if self._proxy.take("request"):
                        break
                    self._lost = self._lost or self._proxy.take("reply", "half")
                self._server.sendall(data)
        self._end()

    def downstream(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(1 << 16):
                if self._lost == "half":
                    self._client.sendall(data[: len(data) // 2])
                if self._lost:
                    break
                self._client.sendall(data)
        self._end()

    def _end(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def proxy(directory: Path, server: Path) -> Iterator[Proxy]:
    """A proxy with its socket in ``directory``, for the server with its socket in ``server``."""
    directory.mkdir(mode=0o711)
    opened = Proxy(directory, server)
    try:
        yield opened
    finally:
        opened.close()
