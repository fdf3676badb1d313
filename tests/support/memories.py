"""Remember and recall from a test, over plain SQL with named arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

Connection = psycopg.Connection[Any]

# The arguments of remem.remember that psycopg cannot type by itself.
_TYPES = {
    "tags": "text[]",
    "aliases": "text[]",
    "entities": "text[]",
    "embedding": "real[]",
    "importance": "real",
    "confidence": "real",
    "turn_no": "int",
    "occurred_at": "timestamptz",
    "valid_from": "timestamptz",
    "valid_to": "timestamptz",
}


Vector = Sequence[float | None]


def posted(db: Connection) -> set[str | None]:
    """The lexemes that the inverted index holds; None for one that its memory does not have."""
    rows = db.execute(
        "select (select min(l) from unnest(m.lexemes) l where remem._word(l) = p.word)"
        " from remem.posting p join remem.memory m using (memory_no)"
    )
    return {lexeme for (lexeme,) in rows}


def floats(vector: Vector | None) -> list[float | None] | None:
    """psycopg wants lists of one type."""
    if vector is None:
        return None
    return [None if number is None else float(number) for number in vector]


class Ref(NamedTuple):
    """One remem.memory_ref."""

    memory_id: UUID | None
    ref: str | None
    outcome: str
    item_no: int
    error: dict[str, Any] | None


def remember(conn: Connection, workspace: str, body: str | None, **arguments: Any) -> Ref:
    """Call remem.remember with the given arguments by name."""
    given = {"workspace": workspace, "body": body, **arguments}
    parts = [
        sql.SQL("{} => {}{}").format(
            sql.Identifier(name),
            sql.Placeholder(name),
            sql.SQL("::" + _TYPES[name]) if name in _TYPES else sql.SQL(""),
        )
        for name in given
    ]
    query = sql.SQL("select * from remem.remember({})").format(sql.SQL(", ").join(parts))
    values = {k: Jsonb(v) if isinstance(v, dict) else v for k, v in given.items()}
    if given.get("embedding") is not None:
        values["embedding"] = floats(given["embedding"])
    row = conn.execute(query, values).fetchone()
    assert row is not None
    return Ref(*row)


def remember_many(
    conn: Connection, workspace: str, items: Any, on_error: str | None = "abort"
) -> list[Ref]:
    """Call remem.remember_many; `items` is anything that JSON can say."""
    rows = conn.execute(
        "select * from remem.remember_many(%s, %s, %s)", [workspace, Jsonb(items), on_error]
    )
    return [Ref(*row) for row in rows]


def get(conn: Connection, workspace: str, **key: Any) -> Any:
    """The record of one memory as a named tuple, or None."""
    ((name, value),) = key.items()
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        cursor.execute(
            sql.SQL("select * from remem.get(%s, {} => %s)").format(sql.Identifier(name)),
            [workspace, value],
        )
        rows = cursor.fetchall()
    assert len(rows) <= 1
    return rows[0] if rows else None


def recall(
    conn: Connection,
    workspace: str,
    query: str | None,
    *,
    embedding: Vector | None = None,
    k: int | None = 8,
    **options: Any,
) -> list[Any]:
    """Call remem.recall; hits as named tuples."""
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        cursor.execute(
            "select * from remem.recall(%s, %s, %s::real[], %s, %s)",
            [workspace, query, floats(embedding), k, Jsonb(options)],
        )
        return cursor.fetchall()


def explain(
    conn: Connection,
    workspace: str,
    query: str,
    *,
    embedding: Vector | None = None,
    k: int = 8,
    **options: Any,
) -> dict[str, Any]:
    """Call remem.recall_explain."""
    row = conn.execute(
        "select remem.recall_explain(%s, %s, %s::real[], %s, %s)",
        [workspace, query, floats(embedding), k, Jsonb(options)],
    ).fetchone()
    assert row is not None
    return dict(row[0])


def open_space(conn: Connection, name: str = "t", dimensions: int = 2, **descriptor: Any) -> None:
    """Register a space of vectors that the test makes, and make it the default."""
    said = {"name": name, "backend": "t", "asset": "t", "dimensions": dimensions, **descriptor}
    conn.execute("select remem.register_space(%s)", [Jsonb(said)])
    conn.execute("select remem.activate_space(%s)", [name])


def value(conn: Connection, query: str, params: Any = None) -> Any:
    """The single value of a query."""
    row = conn.execute(query, params).fetchone()
    assert row is not None
    return row[0]


def bodies(hits: Sequence[Any]) -> list[str]:
    return [hit.body for hit in hits]


EVERY_FIELD: dict[str, Any] = {
    "ref": "r-1",
    "kind": "decision",
    "title": "Retries",
    "summary": "three, then page",
    "tags": ["ops", "on-call"],
    "aliases": ["backoff"],
    "scope": "project",
    "scope_ref": "billing",
    "topic_key": "retries",
    "subject": "worker",
    "attribute": "retry limit",
    "source_class": "user_stated",
    "source_ref": "chat:7",
    "importance": 0.75,
    "confidence": 0.5,
    "pinned": True,
    "unresolved": True,
    "session_ref": "s-1",
    "turn_no": 4,
    "speaker": "Ana",
    "occurred_at": datetime(2026, 3, 1, 9, 30, tzinfo=UTC),
    "valid_from": datetime(2026, 3, 1, tzinfo=UTC),
    "valid_to": datetime(2036, 3, 1, tzinfo=UTC),
    "metadata": {"ticket": 41, "nested": {"list": [1, None, "é"]}},
}
"""Something else than the default in every field that remember takes beside the body."""


EVERY_SCOPE = ["global", "project", "session", "user"]
"""The option scopes that shows the rows of every owner."""


class Refusal:
    """What an error of class RM said."""

    detail: Mapping[str, Any]
    hint: str


@contextmanager
def refused(code: str, **detail: Any) -> Iterator[Refusal]:
    """The block must raise `code` with its constant message, this detail (at least) and a hint."""
    refusal = Refusal()
    with pytest.raises(psycopg.Error) as caught:
        yield refusal
    diag = caught.value.diag
    assert diag.sqlstate == code, f"{diag.sqlstate} {diag.message_primary} {diag.message_detail}"
    assert diag.message_primary == MESSAGES[code]
    assert diag.message_hint
    refusal.detail = json.loads(diag.message_detail or "{}")
    refusal.hint = diag.message_hint
    assert {key: refusal.detail.get(key) for key in detail} == detail, refusal.detail


MESSAGES = {
    "RM001": "invalid argument",
    "RM002": "unknown option",
    "RM003": "text refused",
    "RM101": "not found",
    "RM102": "conflict",
    "RM201": "vector dimension mismatch",
    "RM202": "unknown or inactive embedding space",
    "RM203": "vector refused",
    "RM301": "no access to this workspace",
    "RM302": "tenant not set",
    "RM501": "embedding unavailable",
}


@contextmanager
def warnings(conn: Connection) -> Iterator[list[tuple[str, list[str]]]]:
    """Collects (sqlstate, codes) of every WARNING that the block causes on the connection."""
    seen: list[tuple[str, list[str]]] = []

    def note(diag: psycopg.errors.Diagnostic) -> None:
        if diag.severity_nonlocalized == "WARNING":
            seen.append((diag.sqlstate or "", json.loads(diag.message_detail or "[]")))

    conn.add_notice_handler(note)
    try:
        yield seen
    finally:
        conn.remove_notice_handler(note)
