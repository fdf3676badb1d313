"""doctor's rows by name, and its remedies as somebody pastes them."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.support.memories import Connection, value


class Check(NamedTuple):
    """One remem.check_row."""

    name: str
    status: str
    detail: str
    remedy: str | None


def checks(conn: Connection, workspace: str | None = None) -> dict[str, Check]:
    rows = [Check(*row) for row in conn.execute("select * from remem.doctor(%s)", [workspace])]
    found = {row.name: row for row in rows}
    assert len(found) == len(rows), "two rows of one name"
    for row in rows:
        assert row.status in ("ok", "warning", "error")
        assert "this check failed" not in row.detail, row
        assert row.remedy is None or row.remedy == row.remedy.strip() != ""
    return found


def paste(conn: Connection, remedy: str | None) -> None:
    """Runs a remedy for psql as it stands; `conn` is in autocommit, as psql is."""
    assert remedy is not None and remedy.endswith(";"), remedy
    conn.execute(remedy.encode())


def heals(conn: Connection, name: str, by: Connection | None = None) -> Check:
    """The finding of a check that is not content; pasting its remedy makes it content."""
    found = checks(conn)[name]
    assert found.status in ("warning", "error"), found
    paste(by or conn, found.remedy)
    flush(conn)
    assert checks(conn)[name].status == "ok", checks(conn)[name]
    return found


def flush(conn: Connection) -> None:
    """What this session did counts in the server's statistics from now on."""
    conn.execute("select pg_stat_force_next_flush()")
    conn.execute("select pg_stat_clear_snapshot()")


def maintained(conn: Connection, budget: str = "30 seconds") -> dict[str, tuple[str, int]]:
    """remem.maintain: task to state and rows, but for commands."""
    rows = conn.execute("select * from remem.maintain(%s::interval)", [budget]).fetchall()
    return {task: (state, n) for task, state, n, _, command in rows if command is None}


def many_workspaces(conn: Connection, count: int, each: int = 1) -> None:
    """So many workspaces, with a memory in one of each so many, made as anybody makes them."""
    conn.execute(
        "select count(remem.create_workspace('ws' || g)) from generate_series(1, %s) g", [count]
    )
    conn.execute(
        "select count(remem.remember('ws' || g, 'The heron of pond ' || g || ' is grey.'))"
        " from generate_series(%s::int, %s::int, %s::int) g",
        [each, count, each],
    )


def vectors(conn: Connection, workspace: str, count: int, table: str = "embedding_1") -> None:
    """So many vectors straight into a table of 384 dimensions, counted as writers count them."""
    conn.execute(
        f"insert into remem.{table} (workspace, memory_no, embedding)"  # type: ignore[arg-type]
        " select %s, 1000000 + g, (select array_agg(sin(g * d))::real[]::public.halfvec"
        " from generate_series(1, 384) d where g > 0) from generate_series(1, %s) g",
        [workspace, count],
    )
    space = int(table.removeprefix("embedding_"))
    value(conn, "select remem._add_tally(%s, 0, %s)", [workspace, count])
    value(conn, "select remem._add_tally(%s, %s, %s)", [workspace, space, count])


def log(conn: Connection, workspace: str, at: str, **more: Any) -> None:
    """A row of the log at a moment given as SQL."""
    given = {"tier": "cold", "returned": 3, "ms": 5.0, "arms": "{}", "degraded": "{}"} | more
    conn.execute(
        "insert into remem.recall_log (workspace, at, tier, caller, k, returned, query_hash,"  # type: ignore[arg-type]
        f" degraded, arms, timings) values (%s, {at}, %s, 'somebody', 8, %s, '', %s, %s,"
        " jsonb_build_object('total', %s::float8))",
        [
            workspace,
            given["tier"],
            given["returned"],
            given["degraded"],
            given["arms"],
            given["ms"],
        ],
    )
