"""Everything that a workspace has in every table, without the numbers that are only inside."""

from __future__ import annotations

import json
from typing import Any

from psycopg import sql

from tests.support.memories import Connection

# What is kept for a while, told about the workspace, or counted anew: no part of its memories.
TELEMETRY = {
    "recall_log",
    "recall_day",
    "query_cache",
    "job_run",
    "embedding_claim",
    "embedding_cursor",
    "frequent_word",
}
_MEMORY = ("memory_no", "src_no", "dst_no", "old_no", "new_no")


def contents(
    conn: Connection, workspace: str, *, without: tuple[str, ...] = (), ids: bool = True
) -> dict[str, list[str]]:
    """Rows by table, as sorted JSON; memories, sessions and topics by what names them.

    `ids` names a memory by its id; otherwise, for workspaces that were written apart, by its text.
    `without` leaves out columns.
    """
    memories = dict(
        conn.execute(
            "select m.memory_no, case when %s then m.memory_id::text else m.body || '/' ||"
            " row_number() over (partition by m.body order by m.memory_no) end"
            " from remem.memory m where m.workspace = %s",
            (ids, workspace),
        ).fetchall()
    )
    uuids = dict(
        conn.execute(
            "select m.memory_id::text, m.memory_no from remem.memory m where m.workspace = %s",
            (workspace,),
        ).fetchall()
    )
    sessions = dict(
        conn.execute(
            "select session_no, session_ref from remem.session where workspace = %s", (workspace,)
        ).fetchall()
    )
    topics = dict(
        conn.execute(
            "select topic_no, owner || '/' || key from remem.topic where workspace = %s",
            (workspace,),
        ).fetchall()
    )

    def named(row: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in row.items():
            if key in ("workspace", "workspace_key", "changed_xid", *without):
                continue
            if key in _MEMORY:
                found[key] = memories.get(value, value)
            elif key == "session_no":
                found[key] = sessions.get(value)
            elif key == "topic_no":
                found[key] = topics.get(value)
            elif key in ("attrs", "parts", "memory") and isinstance(value, dict):
                found[key] = named(value)
            elif key == "lexemes":
                found[key] = sorted(value)
            elif not ids and key in ("memory_id", "superseded_by"):
                found[key] = memories.get(uuids.get(value, -1))
            else:
                found[key] = value
        return found

    result = {}
    tables = conn.execute(
        "select t.name::text, replace(t.owned, '$1', '%s') from remem._workspace_tables() t"
    ).fetchall()
    for name, owned in tables:
        if name in TELEMETRY:
            continue
        if name == "tally":
            query = sql.SQL(
                "select jsonb_build_object('space', space_no, 'rows', sum(rows_delta), 'len',"
                " sum(doc_len_delta)) from remem.tally where workspace = %s group by space_no"
                " having sum(rows_delta) <> 0"
            )
        else:
            query = sql.SQL("select to_jsonb(t) from {} t where {}").format(
                sql.Identifier("remem", name), sql.SQL(owned)
            )
        rows = [named(row) for (row,) in conn.execute(query, (workspace,)).fetchall()]
        if name == "tombstone":  # its number is a place in a sequence of another database
            rows = [{k: v for k, v in row.items() if k != "memory_no"} for row in rows]
        result[name] = sorted(json.dumps(row, sort_keys=True, ensure_ascii=False) for row in rows)
    return result
