"""Topics, providers and plans from a test, over plain SQL with named arguments."""

from __future__ import annotations

from typing import Any

from psycopg import sql
from psycopg.types.json import Jsonb

from tests.support.memories import Connection, Vector, floats, value

Plan = dict[str, Any]

_TYPES = {
    "aliases": "text[]",
    "tags": "text[]",
    "providers": "text[]",
    "categories": "text[]",
    "importance": "real",
    "result_limit": "int",
    "embedding": "real[]",
    "value": "jsonb",
    "topic_id": "uuid",
    "after": "uuid",
}


def call(conn: Connection, function: str, **arguments: Any) -> list[Any]:
    """Rows of `remem.function` called with the given arguments by name."""
    parts = [
        sql.SQL("{} => {}::{}").format(
            sql.Identifier(name), sql.Placeholder(name), sql.SQL(_TYPES.get(name, "text"))
        )
        if not isinstance(given, bool | int) or name in _TYPES
        else sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name))
        for name, given in arguments.items()
    ]
    query = sql.SQL("select * from {}({})").format(
        sql.Identifier("remem", function), sql.SQL(", ").join(parts)
    )
    values = dict(arguments)
    if values.get("embedding") is not None:
        values["embedding"] = floats(values["embedding"])
    return conn.execute(query, values).fetchall()


def put_topic(conn: Connection, workspace: str, title: str | None, **arguments: Any) -> str:
    """Call remem.put_topic; the id as text."""
    return str(call(conn, "put_topic", workspace=workspace, title=title, **arguments)[0][0])


def put_provider(conn: Connection, workspace: str, provider_id: str, **arguments: Any) -> None:
    call(conn, "put_provider", workspace=workspace, provider_id=provider_id, **arguments)


def plan(
    conn: Connection,
    workspace: str,
    prompt: str | None,
    *,
    embedding: Vector | None = None,
    **options: Any,
) -> Plan:
    """Call remem.plan."""
    found = value(
        conn,
        "select remem.plan(%s, %s, %s::real[], %s)",
        [workspace, prompt, floats(embedding), Jsonb(options)],
    )
    return dict(found)


def titles(plan: Plan) -> list[str]:
    return [topic["title"] for topic in plan["topics"]]


def providers(plan: Plan) -> list[str]:
    return [request["providerId"] for request in plan["requests"]]


def topic(conn: Connection, workspace: str, title: str) -> Any:
    """The row of remem.list_topics with this title as a dictionary, or None."""
    row = conn.execute(
        "select to_jsonb(t) from remem.list_topics(%s) t where t.title = %s", [workspace, title]
    ).fetchone()
    return row[0] if row else None


def flat_space(conn: Connection, workspace: str = "w") -> None:
    """Make a space of two dimensions, in which a test says every vector, the workspace's."""
    descriptor = {"name": "flat", "backend": "t", "asset": "t", "dimensions": 2}
    conn.execute("select remem.register_space(%s)", [Jsonb(descriptor)])
    conn.execute("select remem.activate_space('flat')")
    conn.execute("select remem.create_workspace(%s)", [workspace])
