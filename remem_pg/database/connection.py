"""Where the sync client's connections come from: its own pool, the caller's pool or connection."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import psycopg
from psycopg import pq
from psycopg.rows import dict_row, tuple_row
from psycopg_pool import ConnectionPool, PoolTimeout

from remem_pg.calls import Call, Reply
from remem_pg.database import wire
from remem_pg.errors import ServerUnavailable

Connection = psycopg.Connection[Any]
IDLE = pq.TransactionStatus.IDLE


class Source(Protocol):
    """What a client needs of the place its connections come from."""

    retries_reads: bool
    """Whether a read whose connection died may be sent again on another one."""

    own_transactions: bool
    """Whether a call has a connection to itself, and not one that its caller goes on using."""

    def connection(self) -> Any:
        """A context manager that gives a live connection."""

    def in_transaction(self) -> bool:
        """Whether a failed statement would leave a transaction of the caller aborted."""

    def close(self) -> None:
        """Closes what this source opened, and nothing else."""


class OwnPool:
    """A small pool for a connection string (None: the embedded server), opened at first use."""

    retries_reads = True
    own_transactions = True

    def __init__(self, conninfo: str | None) -> None:
        self._conninfo = conninfo
        self._pool: ConnectionPool[Connection] | None = None
        self._lock = threading.Lock()
        self._suspect = False

    def dsn(self) -> str:
        """The connection string; without one, the embedded server is started and asked."""
        return start_embedded() if self._conninfo is None else self._conninfo

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        pool = self._opened()
        if self._suspect:
            self._suspect = False
            self._revive()
        given = False
        for last in (False, True):
            try:
                with _live(pool, self._revive) as conn:
                    given = True
                    yield conn
                return
            except ServerUnavailable:
                self._suspect = True
                raise
            except PoolTimeout:
                # the pool keeps to itself why it could not connect: connecting here says it
                self._try().close()
                if given or last or wire.is_full(pool.get_stats()):
                    raise wire.pool_exhausted() from None
                # the server is back and the pool has not noticed: now it tries at once

    def _revive(self) -> None:
        """The embedded server is started again when it died; another server is not ours."""
        if self._conninfo is None:
            self.dsn()

    def _opened(self) -> ConnectionPool[Connection]:
        with self._lock:
            if self._pool is None:
                # the first connection is made here and not by the pool, which would try to reach
                # an unreachable server until its timeout and not tell the reason
                self._try().close()
                pool = ConnectionPool(
                    self.dsn(),
                    kwargs=dict(wire.CONNECTION_SETTINGS),
                    timeout=wire.POOL_TIMEOUT,
                    name="remem",
                    **wire.POOL_SETTINGS,
                )
                pool.open()
                self._pool = pool
            return self._pool

    def _try(self) -> Connection:
        try:
            return psycopg.connect(self.dsn(), **wire.CONNECTION_SETTINGS)
        except psycopg.Error as exc:
            raise wire.translated(exc) from exc

    def in_transaction(self) -> bool:
        return False

    def close(self) -> None:
        with self._lock:
            if self._pool is not None:
                self._pool.close()
                self._pool = None


class GivenPool:
    """The caller's pool: its settings hold, it is never closed here."""

    retries_reads = True
    own_transactions = True

    def __init__(self, pool: ConnectionPool[Connection]) -> None:
        self._pool = pool

    def connection(self) -> Any:
        return _live(self._pool, lambda: None)

    def in_transaction(self) -> bool:
        return False

    def close(self) -> None:
        return None


class GivenConnection:
    """The caller's connection: used inside its transaction as it is, never committed or closed.

    Two threads may share it: each call has it to itself.
    """

    retries_reads = False
    own_transactions = False

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._lock = threading.RLock()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        with self._lock:
            yield self._conn

    def in_transaction(self) -> bool:
        return not self._conn.autocommit or self._conn.info.transaction_status != IDLE

    def close(self) -> None:
        return None


def start_embedded() -> str:
    """The DSN of this user's embedded server, started when it does not run.

    That server is the user's own and for nothing else: without remem it gets it.
    """
    from remem_pg import install
    from remem_pg.embedded import ensure_running

    dsn = ensure_running()
    with psycopg.connect(dsn, **wire.CONNECTION_SETTINGS) as conn:
        if install.installed_version(conn) is None:
            install.migrate(conn)
    return dsn


def open_source(source: Any) -> Source:
    """The source for what a caller passed; no I/O."""
    if source is None:
        source = os.environ.get("REMEM_DSN") or None
    if source is None:
        return OwnPool(None)
    if isinstance(source, str):
        wire.check_conninfo(source)
        return OwnPool(source)
    if isinstance(source, ConnectionPool):
        return GivenPool(source)
    if isinstance(source, psycopg.Connection):
        return GivenConnection(source)
    raise wire.wrong_source(source, "a DSN, a psycopg_pool pool or a psycopg connection")


@contextmanager
def acquire(source: Source) -> Iterator[Connection]:
    """A connection of the source; what goes wrong with getting it is a remem error."""
    try:
        with source.connection() as conn:
            yield conn
    except psycopg.Error as exc:
        error = wire.translated(exc)
        if error is exc:
            raise
        raise error from exc


@contextmanager
def _live(pool: ConnectionPool[Connection], on_dead: Callable[[], None]) -> Iterator[Connection]:
    """A connection of the pool that the server has not closed while it lay there."""
    for _ in range(wire.MOST_DEAD):
        with pool.connection() as conn:
            if wire.is_alive(conn.pgconn):
                yield conn
                return
            conn.pgconn.finish()  # and not close(), which a pool may have made its own
            on_dead()
    raise ServerUnavailable("the server closes every connection")


@contextmanager
def atomic(conn: Connection) -> Iterator[None]:
    """All statements inside or none, without ever committing a transaction of the caller.

    On an idle connection in autocommit this is a transaction of its own; otherwise a savepoint
    in the caller's transaction, which an empty statement begins if need be.
    """
    if not conn.autocommit and conn.info.transaction_status == IDLE:
        conn.execute("select")
    with conn.transaction():
        yield


def execute(conn: Connection, call: Call[Any], tenant: str | None) -> Reply:
    """Sends one call and collects its rows and degraded states."""
    wire.check_encoding(conn)
    warnings = wire.Warnings()
    conn.add_notice_handler(warnings)
    try:
        with _tenant(conn, tenant), psycopg.Cursor(conn, row_factory=dict_row) as cursor:
            wire.adapt(cursor.adapters)
            cursor.execute(call.sql.encode(), call.params, binary=wire.is_binary(conn))
            rows = cursor.fetchall() if cursor.description else []  # an index is no row
    except (psycopg.Error, UnicodeEncodeError) as exc:
        error = wire.translated(exc)
        if error is exc:
            raise
        raise error from exc
    finally:
        conn.remove_notice_handler(warnings)
    return Reply(rows, tuple(warnings.codes))


def copy(conn: Connection, sql: str, blocks: Iterable[bytes]) -> None:
    """Sends blocks to a COPY statement."""
    try:
        with psycopg.Cursor(conn) as cursor, cursor.copy(sql.encode()) as stream:
            for block in blocks:
                stream.write(block)
    except psycopg.Error as exc:
        error = wire.translated(exc)
        if error is exc:
            raise
        raise error from exc


def copy_out(
    conn: Connection, call: Call[Any], sink: Callable[[str], Any], tenant: str | None
) -> None:
    """Gives the rows of a call with one column to ``sink``, one at a time."""
    try:
        statement = f"copy ({call.sql}) to stdout".encode()
        with (
            _tenant(conn, tenant),
            psycopg.Cursor(conn) as cursor,
            cursor.copy(statement, call.params) as stream,
        ):
            for row in stream.rows():
                sink(row[0])
    except psycopg.Error as exc:
        error = wire.translated(exc)
        if error is exc:
            raise
        raise error from exc


@contextmanager
def _tenant(conn: Connection, tenant: str | None) -> Iterator[None]:
    """Gives a transaction of the caller its own ``remem.workspace`` back after the call.

    Outside a transaction there is nothing to give back: the setting ends with the statement.
    """
    if tenant is None or (conn.autocommit and conn.info.transaction_status == IDLE):
        yield
        return
    with psycopg.Cursor(conn, row_factory=tuple_row) as cursor:
        row = cursor.execute(wire.READ_TENANT).fetchone()
        yield
        cursor.execute(wire.SET_TENANT, ((row and row[0]) or "",))
