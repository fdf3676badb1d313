"""An embedded PostgreSQL with pgvector in the user's data directory (extra `embedded`).

The server lives as long as its last user process: each `EmbeddedServer` that was started counts as
one, however its process ends, and the last one that stops takes the server along.  A server that
was left behind by a killed process is used, and stopped, by the next one.

It listens on a Unix socket only, in a directory that no other user can enter; there is no password.
Everything runs as the ordinary role `remem`, which owns the database `remem`, so that the product
never needs more than an application would give it.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType

import psycopg
from psycopg import sql

from remem_pg.errors import EmbeddedUnavailable
from remem_pg.server.postmaster import Postmaster

DATABASE = "remem"
ROLE = "remem"
ROOT_DATA_DIR = Path("/var/lib/remem")
WATCH_SECONDS = 1.0


def default_data_dir() -> Path:
    """Where the data lives when nobody says: REMEM_DATA_DIR, else the user's data directory.

    That is `$XDG_DATA_HOME/remem` (default `~/.local/share/remem`).  For root it is
    /var/lib/remem, because the server runs as another account, which must not enter root's home.
    """
    chosen = os.environ.get("REMEM_DATA_DIR")
    if chosen:
        return Path(chosen)
    if os.geteuid() == 0:
        return ROOT_DATA_DIR
    base = os.environ.get("XDG_DATA_HOME", "")
    # The XDG specification: a relative path is invalid and ignored.
    home = Path(base) if base.startswith("/") else Path.home() / ".local" / "share"
    return home / "remem"


class EmbeddedServer:
    """One user's hold on the embedded server; a context manager.  The constructor does no I/O.

    `data_dir` defaults to `default_data_dir()`.  `settings` are server settings by name, written at
    a start of the server.  Any failure is an EmbeddedUnavailable that says what to do.
    """

    def __init__(
        self, data_dir: str | Path | None = None, *, settings: dict[str, str] | None = None
    ) -> None:
        if sys.platform == "win32":
            raise EmbeddedUnavailable(
                "the embedded PostgreSQL runs on Linux and macOS",
                hint="set REMEM_DSN to a PostgreSQL server",
            )
        path = Path(data_dir) if data_dir is not None else default_data_dir()
        self.data_dir = path.expanduser().absolute()
        self._postmaster = Postmaster(self.data_dir, settings=settings)
        self._started = False

    def start(self) -> str:
        """Start the server, or join or revive it, and return `dsn`; to call again is cheap.

        The first start makes the database (about 2 s); a later one takes about 0.2 s.
        """
        self._postmaster.acquire(_create_database)
        if not self._started:
            atexit.register(self.stop)
            self._started = True
        return self.dsn

    def stop(self) -> bool:
        """End this hold; True when it was the last one and the server was stopped."""
        if not self._started:
            return False
        self._started = False
        atexit.unregister(self.stop)
        return self._postmaster.release()

    @property
    def dsn(self) -> str:
        """Connection URI of the database `remem` for the ordinary role that owns it."""
        return self._postmaster.dsn(ROLE, DATABASE)

    @property
    def admin_dsn(self) -> str:
        """Connection URI of the database `remem` for the server's superuser."""
        return self._postmaster.dsn(dbname=DATABASE)

    @property
    def pid(self) -> int | None:
        """Process id of the server."""
        return self._postmaster.pid

    def alive(self) -> bool:
        """True when the server answers now."""
        return self._postmaster.alive()

    def __enter__(self) -> EmbeddedServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


_running: dict[Path, EmbeddedServer] = {}
_running_lock = threading.Lock()


def ensure_running(data_dir: str | Path | None = None) -> str:
    """Return the DSN of a server that answers now; it is held until this process ends.

    May be called before every use: a server that died meanwhile is started again (about 5 ms
    when it is alive).
    """
    server = EmbeddedServer(data_dir)
    with _running_lock:
        return _running.setdefault(server.data_dir, server).start()


def serve(data_dir: str | Path | None = None, ready: Callable[[str], None] | None = None) -> bool:
    """Keep the server running in the foreground until SIGINT, SIGTERM or SIGHUP (main thread only).

    `ready` is called with the DSN once it answers.  A server that dies is started again.  Returns
    True when the server was stopped, False when other processes still use it.
    """
    done = threading.Event()

    def finish(_number: int, _frame: FrameType | None) -> None:
        done.set()

    server = EmbeddedServer(data_dir)
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = [(number, signal.signal(number, finish)) for number in signals]
    try:
        dsn = server.start()
        if ready is not None:
            ready(dsn)
        while not done.wait(WATCH_SECONDS):
            if not server.alive():
                server.start()
    finally:
        stopped = server.stop()
        for number, handler in previous:
            signal.signal(number, handler)
    return stopped


def _create_database(postmaster: Postmaster) -> None:
    """Make the role, its database and pgvector, whichever of them is missing.

    The superuser creates pgvector, so that the role needs no more than its own database.
    """
    try:
        with psycopg.connect(postmaster.dsn(), autocommit=True) as conn:
            role = sql.Identifier(ROLE)
            if not _exists(conn, "select from pg_roles where rolname = %s", ROLE):
                conn.execute(
                    sql.SQL("create role {} login nosuperuser nocreaterole nobypassrls").format(
                        role
                    )
                )
            if not _exists(conn, "select from pg_database where datname = %s", DATABASE):
                # From template0: what somebody put into template1 is not ours.
                conn.execute(
                    sql.SQL("create database {} template template0 owner {}").format(
                        sql.Identifier(DATABASE), role
                    )
                )
        with psycopg.connect(postmaster.dsn(dbname=DATABASE), autocommit=True) as conn:
            if not _exists(conn, "select from pg_extension where extname = %s", "vector"):
                conn.execute("create extension vector schema public")
            elif _exists(
                conn,
                "select from pg_extension e join pg_available_extensions a on a.name = e.extname"
                " where e.extname = %s and a.default_version <> e.extversion",
                "vector",
            ):
                conn.execute("alter extension vector update")
    except psycopg.Error as error:
        raise EmbeddedUnavailable(
            f"the embedded PostgreSQL runs, but its database could not be made: {error}",
            hint=f"see {postmaster.log}",
        ) from error


def _exists(conn: psycopg.Connection[tuple[object, ...]], query: str, value: str) -> bool:
    return conn.execute(query.encode(), [value]).fetchone() is not None
