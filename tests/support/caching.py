"""Questions to the cache of recalls."""

from __future__ import annotations

from typing import Any

from psycopg.types.json import Jsonb

from tests.support.memories import (
    Connection,
    Vector,
    floats,
    remember,
)

QUESTION = "how often do we retry?"


def cached(
    conn: Connection,
    query: str | None = QUESTION,
    *,
    workspace: str = "w",
    embedding: Vector | None = None,
    k: int = 8,
    **options: Any,
) -> dict[str, Any]:
    row = conn.execute(
        "select remem.recall_cached(%s, %s, %s::real[], %s, %s)",
        [workspace, query, floats(embedding), k, Jsonb(options)],
    ).fetchone()
    assert row is not None
    return dict(row[0])


def tier(conn: Connection, query: str | None = QUESTION, **given: Any) -> str:
    return str(cached(conn, query, **given)["tier"])


def hits(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """What two answers must have in common; scores fade with time and differ in a late digit."""
    return [(h["memory_id"], h["body"]) for h in answer["hits"]]


def write_new(conn: Connection) -> None:
    remember(conn, "w", "We retry five times.")
