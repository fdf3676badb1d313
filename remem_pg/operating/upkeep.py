"""Upkeep by a client: the server's part in short transactions, then what no function can run."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from remem_pg.operating.models import MaintainRow

if TYPE_CHECKING:
    import psycopg

SLICE = 5.0
"""Seconds of one transaction of ``remem.maintain``: what it holds is held no longer than that."""

# What is run without being asked. A constraint that is missing locks its table while it is made.
_RUN = re.compile(
    r"(vacuum|analyze|reindex index concurrently|drop index concurrently"
    r"|create (unique )?index concurrently)\b",
    re.IGNORECASE,
)


def maintain(
    conn: psycopg.Connection[Any],
    budget: float,
    *,
    dry_run: bool = False,
    heard: Callable[[str], None] = lambda command: None,
) -> list[MaintainRow]:
    """Does what is due, and says what became of each task.

    Half of the budget (in seconds) is for the server's part; a command is begun while some of the
    budget is left, and ended. Only the schema's owner and those in its role may run them: for
    others they stay ``due``. ``heard`` is told each command before it runs.

    Args:
        conn: a connection in autocommit; VACUUM runs in no transaction.
        dry_run: the server's part is rolled back, and no command is run.
    """
    started = time.monotonic()

    def left() -> float:
        return budget - (time.monotonic() - started)

    if dry_run:
        with conn.transaction(force_rollback=True):
            return _ask(conn, min(SLICE, budget))
    rows = _ask(conn, min(SLICE, budget / 2))
    while any(row.state == "partial" for row in rows) and left() > budget / 2:
        rows = _added(rows, _ask(conn, min(SLICE, max(left() - budget / 2, 0.1))))
    if not _may_run(conn):
        return rows
    done = []
    for row in rows:
        if row.state == "due" and row.command and _RUN.match(row.command) and left() > 0:
            heard(row.command)
            row = _run(conn, row)
        done.append(row)
    return done


def _ask(conn: psycopg.Connection[Any], seconds: float) -> list[MaintainRow]:
    from psycopg.rows import dict_row

    with conn.cursor(row_factory=dict_row) as cursor:
        cursor.execute("select * from remem.maintain(make_interval(secs => %s))", (seconds,))
        return [MaintainRow.from_row(row) for row in cursor.fetchall()]


def _added(before: list[MaintainRow], after: list[MaintainRow]) -> list[MaintainRow]:
    """The later answer with the numbers of both."""
    counted = {row.task: row.rows for row in before if row.command is None}
    return [
        row if row.command else replace(row, rows=row.rows + counted.get(row.task, 0))
        for row in after
    ]


def _may_run(conn: psycopg.Connection[Any]) -> bool:
    from remem_pg.installing.obstacles import fetch

    query = (
        "select pg_has_role(current_user, n.nspowner, 'usage') from pg_namespace n "
        "where n.nspname = 'remem'"
    )
    return bool(fetch(conn, query)[0])


def _run(conn: psycopg.Connection[Any], row: MaintainRow) -> MaintainRow:
    import psycopg

    try:
        conn.execute((row.command or "").encode())
    except psycopg.Error as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        return replace(row, state="failed", detail=f"{row.detail}; {said[0]}")
    return replace(row, state="done")
