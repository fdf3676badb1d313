"""Where the async client's connections come from; the twin of ``connection``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import psycopg
from psycopg.rows import dict_row, tuple_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from remem_pg.calls import Call, Reply
from remem_pg.database import wire
from remem_pg.database.connection import IDLE, start_embedded
from remem_pg.errors import ServerUnavailable

Connection = psycopg.AsyncConnection[Any]


class Source(Protocol):
    """What a client needs of the place its connections come from."""

    retries_reads: bool
    """Whether a read whose connection died may be sent again on another one."""

    own_transactions: bool
    """Whether a call has a connection to itself, and not one that its caller goes on using."""

    def connection(self) -> Any:
        """An async context manager that gives a live connection."""

    def in_transaction(self) -> bool:
        """Whether a failed statement would leave a transaction of the caller aborted."""

    def several(self) -> bool:
        """Whether it has more than one connection to give at a time."""

    async def close(self) -> None:
        """Closes what this source opened, and nothing else."""


class OwnPool:
    """A small pool for a connection string (None: the embedded server), opened at first use."""

    retries_reads = True
    own_transactions = True

    def __init__(self, conninfo: str | None) -> None:
        self._conninfo = conninfo
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._lock = asyncio.Lock()
        self._suspect = False

    async def dsn(self) -> str:
        """The connection string; without one, the embedded server is started and asked."""
        if self._conninfo is not None:
            return self._conninfo
        return await asyncio.to_thread(start_embedded)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        pool = await self._opened()
        if self._suspect:
            self._suspect = False
            await self._revive()
        given = False
        for last in (False, True):
            try:
                async with _live(pool, self._revive) as conn:
                    given = True
                    yield conn
                return
            except ServerUnavailable:
                self._suspect = True
                raise
            except PoolTimeout:
                # the pool keeps to itself why it could not connect: connecting here says it
                await (await self._try()).close()
                if given or last or wire.is_full(pool.get_stats()):
                    raise wire.pool_exhausted() from None
                # the server is back and the pool has not noticed: now it tries at once

    async def _revive(self) -> None:
        """The embedded server is started again when it died; another server is not ours."""
        if self._conninfo is None:
            await self.dsn()

    async def _opened(self) -> AsyncConnectionPool[Connection]:
        async with self._lock:
            if self._pool is None:
                # as in the twin: the pool would not tell why it cannot connect
                await (await self._try()).close()
                pool = AsyncConnectionPool(
                    await self.dsn(),
                    kwargs=dict(wire.CONNECTION_SETTINGS),
                    timeout=wire.POOL_TIMEOUT,
                    name="remem",
                    **wire.POOL_SETTINGS,
                )
                await pool.open()
                self._pool = pool
            return self._pool

    async def _try(self) -> Connection:
        try:
            return await psycopg.AsyncConnection.connect(
                await self.dsn(), **wire.CONNECTION_SETTINGS
            )
        except psycopg.Error as exc:
            raise wire.translated(exc) from exc

    def in_transaction(self) -> bool:
        return False

    def several(self) -> bool:
        return True

    async def close(self) -> None:
        async with self._lock:
            if self._pool is not None:
                await self._pool.close()
                self._pool = None


class GivenPool:
    """The caller's pool: its settings hold, it is never closed here."""

    retries_reads = True
    own_transactions = True

    def __init__(self, pool: AsyncConnectionPool[Connection]) -> None:
        self._pool = pool

    def connection(self) -> Any:
        return _live(self._pool, _nothing)

    def in_transaction(self) -> bool:
        return False

    def several(self) -> bool:
        return self._pool.max_size != 1  # 0: without limit

    async def close(self) -> None:
        return None


class GivenConnection:
    """The caller's connection: used inside its transaction as it is, never committed or closed.

    Two tasks may share it: each call has it to itself.
    """

    retries_reads = False
    own_transactions = False

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        async with self._lock:
            yield self._conn

    def in_transaction(self) -> bool:
        return not self._conn.autocommit or self._conn.info.transaction_status != IDLE

    def several(self) -> bool:
        return False

    async def close(self) -> None:
        return None


def open_source(source: Any) -> Source:
    """The source for what a caller passed; no I/O."""
    if source is None:
        source = os.environ.get("REMEM_DSN") or None
    if source is None:
        return OwnPool(None)
    if isinstance(source, str):
        wire.check_conninfo(source)
        return OwnPool(source)
    if isinstance(source, AsyncConnectionPool):
        return GivenPool(source)
    if isinstance(source, psycopg.AsyncConnection):
        return GivenConnection(source)
    raise wire.wrong_source(source, "a DSN, an async psycopg_pool pool or async connection")


@asynccontextmanager
async def acquire(source: Source) -> AsyncIterator[Connection]:
    """A connection of the source; what goes wrong with getting it is a remem error."""
    try:
        async with source.connection() as conn:
            yield conn
    except psycopg.Error as exc:
        error = wire.translated(exc)
        if error is exc:
            raise
        raise error from exc


@asynccontextmanager
async def _live(
    pool: AsyncConnectionPool[Connection], on_dead: Callable[[], Awaitable[None]]
) -> AsyncIterator[Connection]:
    """A connection of the pool that the server has not closed while it lay there."""
    for _ in range(wire.MOST_DEAD):
        async with pool.connection() as conn:
            if wire.is_alive(conn.pgconn):
                yield conn
                return
            conn.pgconn.finish()  # and not close(), which a pool may have made its own
            await on_dead()
    raise ServerUnavailable("the server closes every connection")


async def _nothing() -> None:
    """Another's dead connection needs nothing but a new one."""


@asynccontextmanager
async def atomic(conn: Connection) -> AsyncIterator[None]:
    """All statements inside or none, without ever committing a transaction of the caller.

    On an idle connection in autocommit this is a transaction of its own; otherwise a savepoint
    in the caller's transaction, which an empty statement begins if need be.
    """
    if not conn.autocommit and conn.info.transaction_status == IDLE:
        await conn.execute("select")
    async with conn.transaction():
        yield


async def execute(conn: Connection, call: Call[Any], tenant: str | None) -> Reply:
    """Sends one call and collects its rows and degraded states."""
    wire.check_encoding(conn)
    warnings = wire.Warnings()
    conn.add_notice_handler(warnings)
    try:
        async with _tenant(conn, tenant), psycopg.AsyncCursor(conn, row_factory=dict_row) as cursor:
            wire.adapt(cursor.adapters)
            await cursor.execute(call.sql.encode(), call.params, binary=wire.is_binary(conn))
            rows = await cursor.fetchall() if cursor.description else []
    except (psycopg.Error, UnicodeEncodeError) as exc:
        error = wire.translated(exc)
        if error is exc:
            raise
        raise error from exc
    finally:
        conn.remove_notice_handler(warnings)
    return Reply(rows, tuple(warnings.codes))


async def copy(conn: Connection, sql: str, blocks: Iterable[bytes]) -> None:
    """Sends blocks to a COPY statement."""
    try:
        async with psycopg.AsyncCursor(conn) as cursor, cursor.copy(sql.encode()) as stream:
            for block in blocks:
                await stream.write(block)
    except psycopg.Error as exc:
        error = wire.translated(exc)
        if error is exc:
            raise
        raise error from exc


async def copy_out(
    conn: Connection, call: Call[Any], sink: Callable[[str], Any], tenant: str | None
) -> None:
    """Gives the rows of a call with one column to ``sink``, one at a time."""
    try:
        async with _tenant(conn, tenant), psycopg.AsyncCursor(conn) as cursor:
            statement = f"copy ({call.sql}) to stdout".encode()
            async with cursor.copy(statement, call.params) as stream:
                async for row in stream.rows():
                    sink(row[0])
    except psycopg.Error as exc:
        error = wire.translated(exc)
        if error is exc:
            raise
        raise error from exc


@asynccontextmanager
async def _tenant(conn: Connection, tenant: str | None) -> AsyncIterator[None]:
    """Gives a transaction of the caller its own ``remem.workspace`` back after the call.

    Outside a transaction there is nothing to give back: the setting ends with the statement.
    """
    if tenant is None or (conn.autocommit and conn.info.transaction_status == IDLE):
        yield
        return
    async with psycopg.AsyncCursor(conn, row_factory=tuple_row) as cursor:
        await cursor.execute(wire.READ_TENANT)
        row = await cursor.fetchone()
        yield
        await cursor.execute(wire.SET_TENANT, ((row and row[0]) or "",))
