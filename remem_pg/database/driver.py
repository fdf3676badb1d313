"""How the synchronous client carries a flow out: each step where it stands, one after another."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from remem_pg import steps
from remem_pg.calls import Call
from remem_pg.database import connection, settle
from remem_pg.database.connection import Connection, Source
from remem_pg.errors import ServerUnavailable, TenantNotSet
from remem_pg.steps import Session

T = TypeVar("T")


def drive(
    source: Source, session: Session, flow: steps.Flow[T], conn: Connection | None = None
) -> T:
    """Carries a flow out and returns its result; on ``conn`` where a transaction is open."""
    return steps.carry(flow, lambda step: _perform(source, session, step, conn))


def _perform(source: Source, session: Session, step: steps.Step, conn: Connection | None) -> Any:
    match step:
        case steps.Run(call):
            return _run(source, session, call, conn)
        case steps.Work(function):
            return function()
        case steps.Ask(function):
            return settle.ask(function)
        case steps.Settle():
            nested = functools.partial(drive, source, session)
            return settle.in_threads(step, nested, alone=not source.own_transactions)
        case steps.SideBySide():
            return None
        case steps.InTransaction():
            return conn is not None or source.in_transaction()
        case steps.Copy(sql, blocks):
            assert conn is not None, "a copy belongs into a transaction"
            return connection.copy(conn, sql, blocks)
        case steps.CopyOut(call, sink):
            assert conn is not None, "a copy belongs into a transaction"
            call, tenant = session.narrowed(call)
            return connection.copy_out(conn, call, sink, tenant)
        case steps.Together(flow):
            if conn is not None:
                with connection.atomic(conn):
                    return drive(source, session, flow, conn)
            with connection.acquire(source) as own, connection.atomic(own):
                return drive(source, session, flow, own)


def _run(source: Source, session: Session, call: Call[Any], conn: Connection | None) -> Any:
    try:
        return _send(source, session, call, conn)
    except TenantNotSet:
        # the database turned strict since the handshake; refused, so nothing has happened yet
        if not session.learns_strict() or conn is not None or source.in_transaction():
            raise
        return _send(source, session, call, conn)


def _send(source: Source, session: Session, call: Call[Any], conn: Connection | None) -> Any:
    call, tenant = session.narrowed(call)
    if conn is not None:
        return call.parse(connection.execute(conn, call, tenant))
    for attempt in (0, 1):
        acquired = False
        try:
            with connection.acquire(source) as own:
                acquired = True
                return call.parse(connection.execute(own, call, tenant))
        except ServerUnavailable:
            # a read whose connection died under it; a write might have happened
            if attempt or not (acquired and call.read and source.retries_reads):
                raise
    raise AssertionError("unreachable: the second attempt returns or raises")
