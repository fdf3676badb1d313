"""The views for operators: what they show, and to whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psycopg import sql
from psycopg.rows import dict_row

from tests.support.jobs import claim, coverage, drain, fail, finish
from tests.support.memories import Connection, remember, value
from tests.support.operations import log

VIEWS = ("status", "embedding_progress", "recall_latency", "index_health")


def rows(conn: Connection, view: str) -> list[dict[str, Any]]:
    with conn.cursor(row_factory=dict_row) as cursor:
        cursor.execute(sql.SQL("select * from {}").format(sql.Identifier("remem", view)))
        return cursor.fetchall()


def test_status_is_the_database_in_one_row(moving: Connection) -> None:
    (row,) = rows(moving, "status")
    assert row["version"] == value(moving, "select remem.version() ->> 'version'")
    assert (row["workspaces"], row["memories"], row["pending"]) == (1, 10, 10)
    assert (row["default_space"], row["tenant_mode"], row["standby"]) == ("hash", "shared", False)
    assert row["maintained_at"] is None
    assert row["bytes"] > row["vector_index_bytes"] > 0
    claim(moving, 3)
    moving.execute("select remem.maintain()")
    (row,) = rows(moving, "status")
    assert row["jobs_running"] == 1 and row["maintained_at"] is not None


def test_progress_counts_as_the_backlog_does(moving: Connection) -> None:
    def compared() -> None:
        shown = [
            (
                r["space"],
                r["memories"],
                r["vectors"],
                r["pending"],
                r["claimed"],
                r["waiting"],
                r["set_aside"],
                r["empty"],
            )
            for r in sorted(rows(moving, "embedding_progress"), key=lambda r: not r["current"])
        ]
        told = [
            (c.space, c.total, c.embedded, c.pending, c.claimed, c.waiting, c.set_aside, c.empty)
            for c in coverage(moving)
        ]
        assert shown == told

    compared()
    jobs = claim(moving, 4)
    compared()
    fail(moving, jobs[0], "TimeoutError", items=[jobs[0].item_no])
    compared()
    moving.execute("update remem.embedding_claim set due_at = now() where state = 'waiting'")
    drain(moving)
    moving.execute("select remem.release_claims('w', run_id => %s)", [jobs[0].run_id])
    drain(moving)
    compared()
    assert finish(moving)
    compared()
    (row,) = rows(moving, "embedding_progress")
    assert (row["space"], row["current"], row["coverage"]) == ("new", True, 1.0)


def test_latency_is_by_workspace_and_tier(db: Connection) -> None:
    remember(db, "w", "We retry three times.")
    for ms in (1.0, 2.0, 30.0):
        log(db, "w", "now()", ms=ms)
    log(db, "w", "now()", tier="hot", ms=0.5, returned=0, degraded="{stale_rows}")
    log(db, "w", "now() - interval '2 days'", ms=9999.0)
    shown = {r["tier"]: r for r in rows(db, "recall_latency")}
    cold, hot = shown["cold"], shown["hot"]
    assert (cold["recalls"], float(cold["p50_ms"]), float(cold["max_ms"])) == (3, 2.0, 30.0)
    assert (hot["recalls"], hot["empty"], hot["degraded"]) == (1, 1, 1)


def test_every_index_is_shown_with_its_state_and_use(db: Connection, su: Connection) -> None:
    shown = {r["index"]: r for r in rows(db, "index_health")}
    expected = value(db, "select array_agg(name) from remem._expected_indexes()")
    assert set(expected) <= set(shown)
    assert {r["state"] for r in shown.values()} == {"valid"}
    assert shown["embedding_1_hnsw_idx"]["method"] == "hnsw"
    assert shown["embedding_1_hnsw_idx"]["space"] == "hash"
    su.execute(
        "update pg_index set indisvalid = false"
        " where indexrelid = 'remem.embedding_1_hnsw_idx'::regclass"
    )
    shown = {r["index"]: r for r in rows(db, "index_health")}
    assert shown["embedding_1_hnsw_idx"]["state"] == "invalid"


def test_a_view_shows_no_more_than_its_tables_would(
    db: Connection,
    su: Connection,
    make_role: Callable[..., str],
    connect: Callable[..., Connection],
) -> None:
    """Even a role that somebody gave the views gets nothing from them without the tables."""
    remember(db, "w", "We retry three times.")
    role, member = make_role("friend"), make_role("member")
    su.execute(f'grant {db.info.user} to "{member}"'.encode())
    friend = connect(role)
    for view in VIEWS:
        db.execute(f'grant select on remem.{view} to "{role}"'.encode())
    for view in ("status", "embedding_progress", "recall_latency"):
        assert denied(friend, view) == "42501", view
    for view in VIEWS:
        rows(connect(member), view)


def denied(conn: Connection, view: str) -> str | None:
    import psycopg

    try:
        rows(conn, view)
    except psycopg.Error as error:
        return error.sqlstate
    return None
