"""recall_arm and recall_from on the workspace acme, as the tests of a recall in parts call them."""

from __future__ import annotations

import json
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

from tests.support.memories import Vector, floats, value

Connection = psycopg.Connection[Any]
Result = dict[str, Any]

ARMS = ("vector", "lexical", "attribute", "phrase", "pointer")
QUERY = '"deploy on Tuesdays" in which city does Mei deploy?'


def run_arm(
    conn: Connection,
    query: str | None,
    arm: str | None,
    *,
    embedding: Vector | None = None,
    k: int | None = 8,
    **options: Any,
) -> Result | None:
    """Call remem.recall_arm."""
    found: Result | None = value(
        conn,
        "select remem.recall_arm('acme', %s, %s, %s::real[], %s, %s)",
        [query, arm, floats(embedding), k, Jsonb(options)],
    )
    return found


def run_arms(conn: Connection, query: str, **arguments: Any) -> list[Result | None]:
    return [run_arm(conn, query, arm, **arguments) for arm in ARMS]


def recall_from(
    conn: Connection,
    query: str | None,
    given: Any,
    *,
    embedding: Vector | None = None,
    k: int | None = 8,
    **options: Any,
) -> list[Any]:
    """Call remem.recall_from; `given` is anything JSON can say, a text is JSON as it stands."""
    sent = given if isinstance(given, str) else json.dumps(given)
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        cursor.execute(
            "select * from remem.recall_from('acme', %s, %s::jsonb, %s::real[], %s, %s)",
            [query, sent, floats(embedding), k, Jsonb(options)],
        )
        return cursor.fetchall()


def completed(arm: str, *memory_nos: int, **changes: Any) -> Result:
    """A result as recall_arm could have made it, with the best scores there are."""
    scores = [1.0] * len(memory_nos)
    made = {"arm": arm, "state": "completed", "memory_nos": list(memory_nos), "scores": scores}
    return made | ({"matched": scores} if arm == "lexical" else {}) | changes


def number(conn: Connection, ref: str, workspace: str = "acme") -> int:
    """The memory number of the latest row with a ref, live or not."""
    found: int = value(
        conn,
        "select max(memory_no) from remem.memory where workspace = %s and ref = %s",
        [workspace, ref],
    )
    return found
