"""Calls of the lifecycle from a test, and a search for a text through every table."""

from __future__ import annotations

from typing import Any

from psycopg import sql
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

from tests.support.memories import Connection, Ref

_TYPES = {
    "memory_id": "uuid",
    "old": "uuid",
    "new": "uuid",
    "importance": "real",
    "strength": "real",
    "embedding": "real[]",
    "expected": "bigint",
    "before": "timestamptz",
    "limit": "int",
}


def rows(conn: Connection, function: str, workspace: str, **arguments: Any) -> list[Any]:
    """Rows of a function of the schema, called with arguments by name, as named tuples."""
    given = {"workspace": workspace, **arguments}
    parts = [
        sql.SQL("{} => {}{}").format(
            sql.Identifier(name),
            sql.Placeholder(name),
            sql.SQL("::" + _TYPES[name]) if name in _TYPES else sql.SQL(""),
        )
        for name in given
    ]
    query = sql.SQL("select * from {}({})").format(
        sql.Identifier("remem", function), sql.SQL(", ").join(parts)
    )
    values = {k: Jsonb(v) if isinstance(v, dict) else v for k, v in given.items()}
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        return cursor.execute(query, values).fetchall()


def change(conn: Connection, function: str, workspace: str, **arguments: Any) -> Ref:
    """The one memory_ref of forget, unforget, correct, supersede, purge, pin, ..."""
    (row,) = rows(conn, function, workspace, **arguments)
    return Ref(*row)


def history(conn: Connection, workspace: str, **key: Any) -> list[Any]:
    return rows(conn, "history", workspace, **key)


def holding(su: Connection, text: str) -> list[str]:
    """Every table of the schema, live or past, that holds `text` in any column of any row."""
    found = []
    for (name,) in su.execute(
        "select c.oid::regclass::text from pg_class c"
        " where c.relnamespace = 'remem'::regnamespace and c.relkind in ('r', 'p') order by 1"
    ).fetchall():
        count = su.execute(
            f"select count(*) from {name} t where t::text ilike %s".encode(), [f"%{text}%"]
        ).fetchone()
        assert count is not None
        if count[0]:
            found.append(name)
    return found


def about(su: Connection, memory_no: int) -> list[str]:
    """Every table with a row of that memory number, by any column that holds such numbers."""
    found = []
    for name, column in su.execute(
        "select c.oid::regclass::text, a.attname from pg_class c"
        " join pg_attribute a on a.attrelid = c.oid and not a.attisdropped"
        " where c.relnamespace = 'remem'::regnamespace and c.relkind in ('r', 'p')"
        " and a.attname in ('memory_no', 'src_no', 'dst_no', 'old_no', 'new_no') order by 1, 2"
    ).fetchall():
        row = su.execute(f"select 1 from {name} where {column} = %s".encode(), [memory_no])
        if row.fetchone():
            found.append(f"{name}.{column}")
    return found
