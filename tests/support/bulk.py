"""Rows through the staging table, and exports, from a test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

from tests.support.memories import Connection, Ref, floats

Record = dict[str, Any]


def copy_in(conn: Connection, rows: Iterable[tuple[int, Any, Any]]) -> None:
    """(item_no, item, embedding) into the staging table, inside a transaction."""
    with conn.cursor().copy(
        "copy pg_temp.remem_staged (item_no, item, embedding) from stdin"
    ) as copy:
        for number, item, vector in rows:
            copy.write_row((number, Jsonb(item), floats(vector)))


def load(
    conn: Connection,
    workspace: str,
    items: list[Record],
    on_error: str = "abort",
    vectors: list[Any] | None = None,
) -> list[Ref]:
    """Items by way of the staging table, in a transaction of their own."""
    with conn.transaction():
        conn.execute("select remem.stage(%s)", [workspace])
        rows_in = enumerate(zip(items, vectors or [None] * len(items), strict=True), 1)
        copy_in(conn, ((n, item, vector) for n, (item, vector) in rows_in))
        rows = conn.execute("select * from remem.remember_staged(%s, %s)", [workspace, on_error])
        return [Ref(*row) for row in rows]


def export(conn: Connection, workspace: str, **options: Any) -> list[Record]:
    """The records of an export."""
    names = "".join(f", {name} => %({name})s" for name in options)
    rows = conn.execute(
        f"select * from remem.export(%(workspace)s{names})".encode(),
        {"workspace": workspace, **options},
    ).fetchall()
    return [record for (record,) in rows]


def take(
    conn: Connection, workspace: str, records: list[Record], on_error: str = "abort"
) -> list[Any]:
    """Records of an export into a workspace; results as named tuples."""
    with conn.transaction():
        conn.execute("select remem.stage(%s)", [workspace])
        copy_in(conn, ((n, record, None) for n, record in enumerate(records, 1)))
        with conn.cursor(row_factory=namedtuple_row) as cursor:
            return cursor.execute(
                "select * from remem.import_staged(%s, %s)", [workspace, on_error]
            ).fetchall()


def outcomes(results: list[Any], type_: str = "memory") -> list[str]:
    """What became of the records of a type, in order."""
    return [each.outcome for each in results if each.type == type_]
