"""Every public function as the catalog describes it, and ways to call each of them.

Whatever is added to the schema later is found here too: a test that walks `doors` needs no edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

Connection = psycopg.Connection[Any]

WORKSPACE = "acme"
REF = "retries"
BODY = "We retry three times, then page."

# The ids that `furnish` gives its two memories, so that calls which name one are known beforehand.
LINKED = ("11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002")

# For each type of an argument a value that gets past parsing; a new type needs one more.
PLAUSIBLE: dict[str, Any] = {
    "text": WORKSPACE,
    "text[]": ["x"],
    "uuid": "00000000-0000-4000-8000-000000000001",
    "uuid[]": "{}",
    "remem.recall_hit[]": "{}",
    "integer": 1,
    "integer[]": [1],
    "bigint": 1,
    "real": 0.5,
    "real[]": [0.5] * 384,
    "boolean": True,
    "jsonb": Jsonb({}),
    "interval": "1 second",
    "timestamp with time zone": "2026-03-01T09:30:00Z",
}

# What remem.recall_arm says of the first memory.
FOUND = {
    "arm": "lexical",
    "state": "completed",
    "memory_nos": [1],
    "scores": [1.5],
    "matched": [1.5],
}

DESCRIPTOR = {
    "name": "tiny",
    "backend": "callable",
    "asset": "test",
    "dimensions": 3,
    "pooling": "none",
    "normalization": "none",
    "dtype": "float32",
}

# Arguments with which a permitted call succeeds in a database that `furnish` made.
WORKING: dict[str, dict[str, Any]] = {
    "activate_space": {"space": "hash", "workspace": WORKSPACE},
    "build_space_index": {"workspace": WORKSPACE},
    "cancel_reembed": {"workspace": WORKSPACE},
    "catalog_without_embedding": {"workspace": WORKSPACE},
    "claim_embeddings": {"workspace": WORKSPACE},
    "count_words": {"workspace": WORKSPACE},
    "complete_embeddings": {
        "workspace": WORKSPACE,
        "claim_id": LINKED[0],
        "item_nos": [1],
        "embeddings": [0.5] * 384,
    },
    "configure": {"name": "tenant_mode", "value": "shared"},
    "conflicts": {"workspace": WORKSPACE},
    "correct": {"workspace": WORKSPACE, "body": "We retry four times.", "ref": REF},
    "count": {"workspace": WORKSPACE, "filter": '$.kind == "decision"'},
    "create_workspace": {"workspace": "other"},
    "current_space": {"workspace": WORKSPACE},
    "derive_topics": {"workspace": WORKSPACE, "limit": 10},
    "doctor": {"workspace": WORKSPACE},
    "drop_continuity_phrase": {"workspace": WORKSPACE, "language": "english", "phrase": "again"},
    "drop_generic_word": {"workspace": WORKSPACE, "language": "english", "word": "work"},
    "drop_provider": {"workspace": WORKSPACE, "provider_id": "notes"},
    "drop_space": {"space": "tiny", "workspace": WORKSPACE},
    "drop_topic": {"workspace": WORKSPACE, "topic_id": LINKED[0]},
    "drop_workspace": {"workspace": WORKSPACE},
    "forget": {"workspace": WORKSPACE, "ref": REF},
    "forget_where": {"workspace": WORKSPACE, "filter": '$.kind == "decision"', "preview": False},
    "embedding_backlog": {"workspace": WORKSPACE},
    "embedding_problems": {"workspace": WORKSPACE},
    "embedding_runs": {"workspace": WORKSPACE},
    "embedding_work": {"space": "hash"},
    "export": {"workspace": WORKSPACE, "vectors": True},
    "fail_embeddings": {"workspace": WORKSPACE, "claim_id": LINKED[0], "error": "TimeoutError"},
    "finish_reembed": {"workspace": WORKSPACE},
    "get": {"workspace": WORKSPACE, "ref": REF},
    "grant_access": {"role": "pg_monitor", "workspace": WORKSPACE},
    "embed": {"text": None},  # nothing to embed needs no model
    "embed_many": {"texts": []},
    "hash_embed": {"text": BODY},
    "history": {"workspace": WORKSPACE, "ref": REF},
    "import_staged": {"workspace": WORKSPACE},
    "links_between": {"workspace": WORKSPACE, "memory_ids": list(LINKED)},
    "list": {"workspace": WORKSPACE, "filter": '$.kind == "decision"'},
    "list_grants": {"workspace": WORKSPACE},
    "list_workspaces": {},
    "list_continuity_phrases": {"workspace": WORKSPACE},
    "list_generic_words": {"workspace": WORKSPACE},
    "list_providers": {"workspace": WORKSPACE},
    "list_spaces": {"workspace": WORKSPACE},
    "list_topics": {"workspace": WORKSPACE},
    "log_recall": {"workspace": WORKSPACE, "tier": "cold", "k": 8, "returned": 3},
    "maintain": {"budget": "5 seconds"},
    "pin": {"workspace": WORKSPACE, "ref": REF},
    "plan": {"workspace": WORKSPACE, "prompt": "what did we decide last time?"},
    "purge": {"workspace": WORKSPACE, "ref": REF},
    "purge_forgotten": {"workspace": WORKSPACE},
    "put_continuity_phrase": {"workspace": WORKSPACE, "language": "english", "phrase": "as before"},
    "put_generic_word": {"workspace": WORKSPACE, "language": "english", "word": "matter"},
    "put_plan_setting": {"workspace": WORKSPACE, "name": "max_topics", "value": Jsonb(2)},
    "put_provider": {"workspace": WORKSPACE, "provider_id": "notes"},
    "put_provider_embedding": {
        "workspace": WORKSPACE,
        "provider_id": "notes",
        "embedding": [0.5] * 384,
    },
    "put_route": {"kind": "general", "arms": ["vector", "lexical"], "workspace": WORKSPACE},
    "put_source_class": {"name": "rumour", "trust": 0.2},
    "put_topic": {"workspace": WORKSPACE, "title": "Retries", "providers": ["notes"]},
    "put_topic_embedding": {
        "workspace": WORKSPACE,
        "topic_id": LINKED[0],
        "embedding": [0.5] * 384,
    },
    "rebuild_entities": {"workspace": WORKSPACE, "limit": 10},
    "rebuild_postings": {"workspace": WORKSPACE, "limit": 10},
    "recall": {"workspace": WORKSPACE, "query": "how often do we retry?"},
    "recall_arm": {"workspace": WORKSPACE, "query": "how often do we retry?", "arm": "lexical"},
    "recall_cached": {"workspace": WORKSPACE, "query": "how often do we retry?"},
    "recall_explain": {"workspace": WORKSPACE, "query": "how often do we retry?"},
    "recall_from": {"workspace": WORKSPACE, "query": "retry?", "arms": Jsonb([FOUND])},
    "recall_from_explain": {"workspace": WORKSPACE, "query": "retry?", "arms": Jsonb([FOUND])},
    "recall_many": {"workspace": WORKSPACE, "queries": Jsonb(["how often do we retry?"])},
    "reinforce": {"workspace": WORKSPACE, "ref": REF},
    "reindex_text": {"workspace": WORKSPACE},
    "reembed": {"workspace": WORKSPACE},
    "register_space": {"descriptor": Jsonb(DESCRIPTOR)},
    "relate": {"workspace": WORKSPACE, "src": LINKED[0], "dst": LINKED[1], "kind": "part_of"},
    "release_claims": {"workspace": WORKSPACE, "claim_id": LINKED[0]},
    "remember": {"workspace": WORKSPACE, "body": "Deploys happen on Tuesdays.", "ref": "deploys"},
    "remember_many": {
        "workspace": WORKSPACE,
        "items": Jsonb([{"body": "Standups are at ten."}, {"body": BODY, "session_ref": "s"}]),
    },
    "remember_staged": {"workspace": WORKSPACE},
    "render": {"workspace": WORKSPACE, "hits": "{}"},
    "resolve": {"workspace": WORKSPACE, "ref": REF},
    "revoke_access": {"role": "pg_monitor", "workspace": WORKSPACE},
    "route_of": {"workspace": WORKSPACE, "query": "what did we decide?"},
    "topic_memories": {"workspace": WORKSPACE, "topic_ids": [LINKED[0]]},
    "set_freshness": {"workspace": WORKSPACE, "freshness": "stale", "ref": REF},
    "set_importance": {"workspace": WORKSPACE, "importance": 0.9, "ref": REF},
    "set_language": {"workspace": WORKSPACE, "language": "german"},
    "supersede": {"workspace": WORKSPACE, "old": LINKED[0], "new": LINKED[1]},
    "unforget": {"workspace": WORKSPACE, "memory_id": LINKED[0]},
    "unpin": {"workspace": WORKSPACE, "ref": REF},
    "retry_embeddings": {"workspace": WORKSPACE},
    "space_index": {"workspace": WORKSPACE},
    "stage": {"workspace": WORKSPACE},
    "start_reembed": {"workspace": WORKSPACE, "space": "tiny"},
    "unrelate": {"workspace": WORKSPACE, "src": LINKED[0], "dst": LINKED[1]},
    "version": {},
}


# Working calls after which another one would not find what it is about.
TAKING = {"correct", "drop_workspace", "forget", "forget_where", "purge", "supersede"}


@dataclass(frozen=True)
class Door:
    """One public function: its name, and its arguments as pairs of name and type."""

    name: str
    signature: str
    arguments: tuple[tuple[str, str], ...]
    required: int

    def call(self, conn: Connection, values: Mapping[str, Any]) -> list[Any]:
        """Call it with named arguments; an argument left out takes its default."""
        types = dict(self.arguments)
        given = sql.SQL(", ").join(
            sql.SQL("{} => {}::{}").format(
                sql.Identifier(name), sql.Placeholder(name), sql.SQL(types[name])
            )
            for name in values
        )
        query = sql.SQL("select * from {}({})").format(sql.Identifier("remem", self.name), given)
        return conn.execute(query, dict(values)).fetchall()

    def nulls(self) -> dict[str, Any]:
        return {name: None for name, _ in self.arguments}

    def plausible(self) -> dict[str, Any]:
        return {name: PLAUSIBLE[type_] for name, type_ in self.arguments}

    def shortest(self) -> dict[str, Any]:
        return {name: PLAUSIBLE[type_] for name, type_ in self.arguments[: self.required]}

    def working(self) -> dict[str, Any]:
        return WORKING[self.name]

    def ways(self) -> dict[str, dict[str, Any]]:
        """The calls that a test of refusals makes."""
        return {
            "with nulls": self.nulls(),
            "with plausible arguments": self.plausible(),
            "with the required arguments": self.shortest(),
            "as it is meant": self.working(),
        }


def doors(conn: Connection) -> list[Door]:
    """The public functions of the schema, by name."""
    rows = conn.execute(
        """
        select p.proname, p.oid::regprocedure::text, p.pronargs - p.pronargdefaults,
          array(
            select array[p.proargnames[a.position], format_type(a.type, null)]
            from unnest(p.proargtypes) with ordinality a (type, position) order by a.position)
        from pg_proc p
        where p.pronamespace = 'remem'::regnamespace and p.proname not like '\\_%%'
        order by 1, 2
        """,
        (),
    ).fetchall()
    return [Door(r[0], r[1], tuple(map(tuple, r[3])), r[2]) for r in rows]


def work(door: Door, conn: Connection) -> None:
    """The working call of a door; one that takes what others need is undone."""
    with conn.transaction(force_rollback=door.name in TAKING):
        door.call(conn, door.working())


def refusal(door: Door, conn: Connection, values: Mapping[str, Any]) -> str:
    """The SQLSTATE of a call whose effects are undone; "" where it succeeded."""
    try:
        with conn.transaction(force_rollback=True):
            door.call(conn, values)
    except psycopg.Error as error:
        return error.sqlstate or "?"
    return ""


def furnish(owner: Connection) -> None:
    """Give the database one workspace with memories and a catalog, and a second space."""
    owner.execute(
        "select remem.remember(%s, %s, ref => %s, kind => 'decision', session_ref => 's')",
        (WORKSPACE, BODY, REF),
    )
    owner.execute("select remem.remember(%s, %s)", (WORKSPACE, "The office cat is called Turing."))
    owner.execute(
        "update remem.memory m set memory_id = (array[%s, %s]::uuid[])[n.place] from ("
        "  select o.memory_no, row_number() over (order by o.memory_no) as place"
        "  from remem.memory o where o.workspace = %s) n"
        " where m.workspace = %s and m.memory_no = n.memory_no",
        (*LINKED, WORKSPACE, WORKSPACE),
    )
    owner.execute("select remem.register_space(%s)", (Jsonb({**DESCRIPTOR, "asset": "second"}),))
    owner.execute("select remem.put_provider(%s, 'notes')", (WORKSPACE,))
    owner.execute("select remem.put_topic(%s, 'Office cat')", (WORKSPACE,))
    owner.execute("update remem.topic set topic_id = %s", (LINKED[0],))
    owner.execute("delete from remem.provider_embedding")  # something that lacks its vector


def grant(owner: Connection, role: str, workspace: str | None, level: str) -> None:
    owner.execute("select remem.grant_access(%s, %s, %s)", (role, workspace, level))


def run(conn: Connection, query: str, *names: str) -> None:
    """Run DDL with quoted names in the places of `{}`."""
    conn.execute(sql.SQL(query).format(*map(sql.Identifier, names)))  # type: ignore[arg-type]


def relations(conn: Connection) -> list[tuple[str, str]]:
    """(name, kind) of every relation of the schema that could be read."""
    return conn.execute(
        "select c.oid::regclass::text, c.relkind::text from pg_class c "
        "where c.relnamespace = 'remem'::regnamespace and c.relkind in ('r','p','v','m','S','f') "
        "order by 1"
    ).fetchall()


def state(conn: Connection, query: str) -> str:
    """The SQLSTATE of a statement whose effects are undone; "" where it succeeded."""
    try:
        with conn.transaction(force_rollback=True):
            conn.execute(query.encode())
    except psycopg.Error as error:
        return error.sqlstate or "?"
    return ""
