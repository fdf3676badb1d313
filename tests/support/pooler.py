"""Poolers in transaction mode between a client and the run's server: PgBouncer where it is
installed, and a small one of our own that does the same and is always there."""

from __future__ import annotations

import os
import queue
import select
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.support.places import new_directory

SIZE = 2
"""Server connections of a pooler: fewer than its clients, so that they are really shared."""

_PGBOUNCER = next(
    (p for p in (shutil.which("pgbouncer"), "/usr/sbin/pgbouncer") if p and Path(p).exists()), None
)
AVAILABLE = ("own", "pgbouncer") if _PGBOUNCER else ("own",)


@contextmanager
def pooler(kind: str, conninfo: str, user: str) -> Iterator[str]:
    """The directory of the pooler's socket (port 6432)."""
    directory = new_directory("remem-pooler-")
    try:
        run = pgbouncer if kind == "pgbouncer" else own
        with run(directory, conninfo, user):
            yield str(directory)
    finally:
        shutil.rmtree(directory)


@contextmanager
def pgbouncer(directory: Path, conninfo: str, user: str) -> Iterator[None]:
    server = conninfo_to_dict(conninfo)
    users, config = directory / "users.txt", directory / "pgbouncer.ini"
    users.write_text(f'"{user}" "{server.get("password") or ""}"\n')
    config.write_text(
        f"""
[databases]
* = host={server["host"]} port={server.get("port") or 5432}
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {directory}
auth_type = trust
auth_file = {users}
pool_mode = transaction
default_pool_size = {SIZE}
ignore_startup_parameters = extra_float_digits,options
logfile = {directory / "log"}
"""
    )
    # It refuses to be root, and has to reach the server's socket: it is who owns that one.
    account = {}
    if os.geteuid() == 0 and str(server["host"]).startswith("/"):
        owner = Path(str(server["host"])).stat()
        account = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
        for path in (directory, users, config):
            os.chown(path, owner.st_uid, owner.st_gid)
    assert _PGBOUNCER is not None
    process = subprocess.Popen(
        [_PGBOUNCER, "--quiet", str(config)], stderr=subprocess.DEVNULL, **account
    )
    try:
        for _ in range(500):
            assert process.poll() is None, (directory / "log").read_text()
            with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(directory / ".s.PGSQL.6432"))
                break
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.02)
        yield
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def own(directory: Path, conninfo: str, user: str) -> Iterator[None]:
    """Ours: a server connection is a client's until its transaction ends, and is not cleaned."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(directory / ".s.PGSQL.6432"))
    listener.listen(64)
    shared = _Shared(conninfo)

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_serve, args=(client, shared), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        # shutdown wakes the thread that waits in accept; close alone does not
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        shared.close()


class _Shared:
    """The server connections by user and database, handed out in turn."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._free: dict[tuple[str, str], queue.Queue[_Server]] = {}
        self._lock = threading.Lock()

    def of(self, user: str, database: str) -> queue.Queue[_Server]:
        with self._lock:
            if (user, database) not in self._free:
                made: queue.Queue[_Server] = queue.Queue()
                for _ in range(SIZE):
                    made.put(_Server(self._conninfo, user, database))
                self._free[user, database] = made
            return self._free[user, database]

    def close(self) -> None:
        for free in self._free.values():
            while not free.empty():
                free.get().connection.close()


class _Server:
    """A server connection, whose greeting libpq has done; its socket is ours from then on."""

    def __init__(self, conninfo: str, user: str, database: str) -> None:
        self.connection = psycopg.connect(conninfo, user=user, dbname=database, autocommit=True)
        self.socket = socket.socket(fileno=os.dup(self.connection.fileno()))
        self.socket.setblocking(True)

    def parameters(self) -> bytes:
        names = (
            "server_version", "server_encoding", "client_encoding", "DateStyle", "TimeZone",
            "integer_datetimes", "standard_conforming_strings", "IntervalStyle",
        )  # fmt: skip
        status = self.connection.pgconn.parameter_status
        pairs = ((name.encode(), status(name.encode()) or b"") for name in names)
        return b"".join(_message(b"S", name + b"\0" + value + b"\0") for name, value in pairs)


def _message(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


def _exactly(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = end.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _read(end: socket.socket) -> tuple[bytes, bytes]:
    """The kind of the next message, and the whole of it."""
    head = _exactly(end, 5)
    return head[:1], head + _exactly(end, struct.unpack("!i", head[1:])[0] - 4)


def _greeting(client: socket.socket) -> dict[str, str]:
    while True:
        size, code = struct.unpack("!ii", _exactly(client, 8))
        rest = _exactly(client, size - 8)
        if code >> 16 == 3:
            words = rest.decode().rstrip("\0").split("\0")
            return dict(zip(words[::2], words[1::2], strict=True))
        client.sendall(b"N")  # neither TLS nor GSS


def _serve(client: socket.socket, shared: _Shared) -> None:
    with client, suppress(EOFError, OSError):
        asked = _greeting(client)
        free = shared.of(asked["user"], asked["database"])
        server = free.get()
        hello = server.parameters()
        free.put(server)
        key = _message(b"K", struct.pack("!ii", 1, 1))
        ready = _message(b"Z", b"I")
        client.sendall(_message(b"R", struct.pack("!i", 0)) + hello + key + ready)
        while True:
            kind, message = _read(client)
            if kind == b"X":
                return
            server = free.get()
            try:
                _transaction(client, server, kind, message)
            finally:
                free.put(server)


def _transaction(client: socket.socket, server: _Server, kind: bytes, message: bytes) -> None:
    """Carries messages both ways until the server is idle and owes no answer."""
    server.socket.sendall(message)
    owed = int(kind in (b"Q", b"S", b"F"))
    state = b"I"
    while owed or state != b"I" or kind not in (b"Q", b"S", b"F"):
        for end in select.select([client, server.socket], [], [])[0]:
            if end is client:
                kind, message = _read(client)
                owed += kind in (b"Q", b"S", b"F")
                server.socket.sendall(message)
            else:
                answer, message = _read(server.socket)
                client.sendall(message)
                if answer == b"Z":
                    owed -= 1
                    state = message[5:6]
