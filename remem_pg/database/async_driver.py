"""How the asynchronous client carries a flow out. A model runs in a thread, not in the loop."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from remem_pg import steps
from remem_pg.calls import Call
from remem_pg.database import async_connection, settle, side_by_side
from remem_pg.database.async_connection import Connection, Source
from remem_pg.errors import ServerUnavailable, TenantNotSet
from remem_pg.steps import Session

T = TypeVar("T")


async def drive(
    source: Source, session: Session, flow: steps.Flow[T], conn: Connection | None = None
) -> T:
    """Carries a flow out and returns its result; on ``conn`` where a transaction is open."""
    return await steps.carry_async(flow, lambda step: _perform(source, session, step, conn))


async def _perform(
    source: Source, session: Session, step: steps.Step, conn: Connection | None
) -> Any:
    match step:
        case steps.Run(call):
            return await _run(source, session, call, conn)
        case steps.Work(function):
            return await settle.in_daemon(function)
        case steps.Ask(function):
            return await settle.ask_async(function)
        case steps.Settle():
            nested = functools.partial(drive, source, session)
            return await settle.in_tasks(step, nested, alone=not source.own_transactions)
        case steps.SideBySide():
            if conn is not None or not source.several():
                return None
            return await side_by_side.perform(step, lambda call: _run(source, session, call, None))
        case steps.InTransaction():
            return conn is not None or source.in_transaction()
        case steps.Copy(sql, blocks):
            assert conn is not None, "a copy belongs into a transaction"
            return await async_connection.copy(conn, sql, blocks)
        case steps.CopyOut(call, sink):
            assert conn is not None, "a copy belongs into a transaction"
            call, tenant = session.narrowed(call)
            return await async_connection.copy_out(conn, call, sink, tenant)
        case steps.Together(flow):
            if conn is not None:
                async with async_connection.atomic(conn):
                    return await drive(source, session, flow, conn)
            async with (
                async_connection.acquire(source) as own,
                async_connection.atomic(own),
            ):
                return await drive(source, session, flow, own)


async def _run(source: Source, session: Session, call: Call[Any], conn: Connection | None) -> Any:
    try:
        return await _send(source, session, call, conn)
    except TenantNotSet:
        # the database turned strict since the handshake; refused, so nothing has happened yet
        if not session.learns_strict() or conn is not None or source.in_transaction():
            raise
        return await _send(source, session, call, conn)


async def _send(source: Source, session: Session, call: Call[Any], conn: Connection | None) -> Any:
    call, tenant = session.narrowed(call)
    if conn is not None:
        return call.parse(await async_connection.execute(conn, call, tenant))
    for attempt in (0, 1):
        acquired = False
        try:
            async with async_connection.acquire(source) as own:
                acquired = True
                return call.parse(await async_connection.execute(own, call, tenant))
        except ServerUnavailable:
            # a read whose connection died under it; a write might have happened
            if attempt or not (acquired and call.read and source.retries_reads):
                raise
    raise AssertionError("unreachable: the second attempt returns or raises")
